package operate

import (
	"errors"
	"fmt"
	"testing"

	"github.com/troupehq/troupe/internal/console/screen"
)

// An act on the screen is in the audit as the same act by a command would be.
func TestActed(t *testing.T) {
	for _, c := range []struct {
		what, said string
		on         screen.Page
		err        error
		want       string
	}{
		{"retry Pay r1 of the set dead", "retried", screen.Page{Name: "explain", Arg: "r1"}, nil, "jobs retry /jobs/r1/retry [r1] done retried: retry Pay r1 of the set dead"},
		{"kill Pay r1 of the set retry", "gone", screen.Page{Name: "explain", Arg: "r1"}, nil, "jobs kill /jobs/r1/kill [r1] warning gone: kill Pay r1 of the set retry"},
		{"cancel Pay r1: its context ends", "", screen.Page{Name: "explain", Arg: "r1"}, errors.New("no"), "jobs cancel /jobs/r1/cancel [r1] failed no: cancel Pay r1: its context ends"},
		{"delete an entry that is no job", "deleted", screen.Page{}, nil, "jobs delete  [] done deleted: delete an entry that is no job"},
		{"pause the queue a/b: nobody", "done", screen.Page{Name: "queue", Arg: "a/b"}, nil, "queues pause /queues/a%2Fb/pause [] done done: pause the queue a/b: nobody"},
		{"quiet h:1:a: it takes no jobs", "told", screen.Page{Name: "tree", Arg: "h:1:a"}, nil, "quiet /processes/h:1:a/quiet [] done told: quiet h:1:a: it takes no jobs"},
	} {
		e := acted(c.what, c.on, c.said, c.err)
		if got := fmt.Sprint(e.Action, " ", e.Path, " ", e.Jobs, " ", e.Outcome, " ", e.Text); got != c.want || e.Via != "top" {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
