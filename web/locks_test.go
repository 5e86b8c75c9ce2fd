package web

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
)

// The page has who holds each lock, and where that job is; one is freed with a reason, once, and by its holder's name.
func TestLocksArePagedAndFreed(t *testing.T) {
	s := start(t)
	s.fixture()
	ctx := t.Context()
	harness.OK(t, s.rdb.Set(ctx, "troupe:lock:gone", "ended", time.Hour).Err())
	page := s.get("/locks")
	contains(t, "the list", page, "2 locks", `<a href="/jobs/`+fixtureJID+`"><code>`+fixtureJID, "Billing::Charge", "retry", `data-label="Since"><time`, "nowhere: it has ended", `href="/locks/free?holder=ended&amp;lock=troupe%3Alock%3Agone"`)
	hasNot(t, "a viewer's", s.get("/locks", "Role", "viewer"), "Free…")
	at := "/locks/free?" + fixtureLock
	contains(t, "the question", s.get(at), "Free the lock of the job "+fixtureJID+"?", "Where that job is: retry.", `name="reason"`)
	_, text := s.post(at, url.Values{"count": {"1"}})
	contains(t, "without a reason", text, "no reason was given")
	harness.Equal(t, "the lock is held", s.rdb.Exists(ctx, "troupe:lock:0f1e2d3c").Val(), 1)
	_, text = s.post(at, url.Values{"count": {"1"}, "reason": {"Ruby has run it"}})
	contains(t, "freed", text, "The lock of the job "+fixtureJID+" is free.")
	harness.Equal(t, "the lock is held", s.rdb.Exists(ctx, "troupe:lock:0f1e2d3c").Val(), 0)
	contains(t, "the audit", s.get("/audit?action=locks"), "Ruby has run it", fixtureJID)

	harness.OK(t, s.rdb.Set(ctx, "troupe:lock:0f1e2d3c", "another", time.Hour).Err())
	_, text = s.post(at, url.Values{"count": {"1"}, "reason": {"again"}})
	contains(t, "of another holder", text, "does not hold the lock any more")
	harness.Equal(t, "the lock is held by", s.rdb.Get(ctx, "troupe:lock:0f1e2d3c").Val(), "another")
	if status, _, _ := s.do(http.MethodGet, "/locks/free?lock=queue:x&holder=y", ""); status != http.StatusBadRequest {
		t.Errorf("a key that is no lock: %d", status)
	}
}
