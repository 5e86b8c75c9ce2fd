package web

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/web/internal/limiter"
)

// Who is not signed in sends only so much, by address, and fills no audit. Others are not held up.
func TestStrangersAreLimited(t *testing.T) {
	set, tokens := withUsers(t)
	s := start(t, set)
	s.h.strangers = limiter.New(time.Hour, 10)
	refused := 0
	for range 30 {
		if w := s.ask(s.h, http.MethodPost, "/queues/q/pause", "", "From", "192.0.2.1:1"); w.Code == http.StatusTooManyRequests {
			refused++
		} else if w.Code != http.StatusUnauthorized {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if n := s.rdb.LLen(t.Context(), keys.AuditRefused).Val(); refused != 20 || n != 10 {
		t.Errorf("%d refused, %d in the audit", refused, n)
	}
	if w := s.ask(s.h, http.MethodPost, "/queues/q/pause", "", "From", "192.0.2.2:1"); w.Code != http.StatusUnauthorized {
		t.Errorf("from another address: %d", w.Code)
	}
	if w := s.ask(s.h, http.MethodPost, "/queues/q/pause", "", "From", "192.0.2.1:1", "Authorization", "Bearer "+tokens["operator"], "Accept", "application/json"); w.Code != http.StatusOK {
		t.Errorf("with a token: %d %s", w.Code, w.Body)
	}
}

// A user and an address have only so many live connections.
func TestLiveConnectionsAreLimited(t *testing.T) {
	s := start(t)
	of := func(user, address string) *request {
		return &request{Handler: s.h, Request: &http.Request{RemoteAddr: address}, user: User{user, Viewer}}
	}
	var leave []func()
	open := func(most int, by func(i int) *request) {
		t.Helper()
		n := 0
		for i := range most + 5 {
			if end, ok := by(i).enter(); ok {
				n++
				leave = append(leave, end)
			}
		}
		harness.Equal(t, "connections", n, most)
	}
	open(mostTabs, func(i int) *request { return of("ann", fmt.Sprintf("192.0.2.%d:1", i)) })
	open(mostPeers, func(i int) *request { return of(fmt.Sprint("user", i), "198.51.100.1:1") })
	open(mostLive-mostTabs-mostPeers, func(i int) *request { return of(fmt.Sprint("other", i), fmt.Sprintf("203.0.113.%d:1", i)) })
	for _, end := range leave {
		end()
	}
	if len(s.h.open) != 0 {
		t.Errorf("left %v", s.h.open)
	}
}

// openNow are the live connections.
func (h *Handler) openNow() int {
	h.openMu.Lock()
	defer h.openMu.Unlock()
	return h.open[""]
}
