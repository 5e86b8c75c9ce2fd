package control

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// Requests wait in a list of each process, and every process replies once.
func TestRequestsAndReplies(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, id := range []string{"a", "b"} {
		go func() {
			for ctx.Err() == nil {
				requests, err := Requests(ctx, rdb, id, time.Second)
				for _, r := range requests {
					if err = Answer(ctx, rdb, r, Reply{Process: id, Result: Done, Why: r.Do + " " + r.JID}); err != nil {
						break
					}
				}
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		}()
	}
	got := map[string]string{}
	if err := Send(ctx, rdb, []string{"a", "b"}, Request{Do: Cancel, JID: "j"}, func(r Reply) bool {
		got[r.Process] = r.Why
		return true
	}); err != nil || got["a"] != "cancel j" || got["b"] != "cancel j" || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	replies := 0
	if err := Send(ctx, rdb, []string{"a", "b"}, Request{Do: Look}, func(Reply) bool { replies++; return false }); err != nil || replies != 1 {
		t.Errorf("%d replies after an end, %v", replies, err)
	}
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	if err := Send(short, rdb, []string{"a", "gone"}, Request{Do: Look}, func(Reply) bool { return true }); !errors.Is(err, ErrNoReply) {
		t.Errorf("a process that is gone: %v", err)
	}
	if d := rdb.PTTL(ctx, keys.Requests("gone")).Val(); d <= 0 || d > life {
		t.Errorf("the request waits for %s", d)
	}
}

// A request that nobody has read in time is not obeyed.
func TestARequestExpires(t *testing.T) {
	rdb, _ := redistest.New(t)
	if err := rdb.RPush(t.Context(), keys.Requests("a"), `{"do":"cancel","jid":"j","expires":1795000000}`, `junk`).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := Requests(t.Context(), rdb, "a", time.Second); err != nil || got != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
}
