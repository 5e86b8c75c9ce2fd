package fleet

import (
	"errors"
	"testing"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// In a process of Ruby only iterable jobs can be cancelled.
func TestJobsOfRuby(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	const id = "ruby:1:abc"
	rdb.SAdd(ctx, "processes", id)
	rdb.HSet(ctx, id, "info", `{"hostname":"ruby","pid":1,"identity":"ruby:1:abc","concurrency":5}`, "busy", 2, "beat", time.Now().Unix(), "quiet", "false")
	for _, jid := range []string{"plain", "walks"} {
		rdb.HSet(ctx, id+":work", "t"+jid, `{"queue":"default","run_at":1795000000,"payload":"{\"class\":\"A\",\"args\":[],\"jid\":\"`+jid+`\"}"}`)
	}
	rdb.HSet(ctx, "it-walks", "ex", 1)
	f := New(rdb, nil)
	var refused *RefusedError
	if _, err := f.Cancel(ctx, "plain"); !errors.As(err, &refused) || refused.Process != id {
		t.Errorf("a plain job: %v", err)
	}
	if process, err := f.Cancel(ctx, "walks"); err != nil || process != id {
		t.Errorf("an iterable job: %s, %v", process, err)
	}
	if rdb.HGet(ctx, "it-walks", "cancelled").Val() == "" {
		t.Error("the iterable job is not told")
	}
	if _, err := f.Cancel(ctx, "nobody"); !errors.Is(err, inspect.ErrNotFound) {
		t.Errorf("no job: %v", err)
	}
}
