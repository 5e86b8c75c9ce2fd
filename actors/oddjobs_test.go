package actors_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/testkit"
)

// What runs as fetched is retried by the same rules, and each run sees the same arguments and counts.
func TestOddJobsOfOtherClientsAreRetried(t *testing.T) {
	rdb := testkit.Redis(t)
	ctx := t.Context()
	var mu sync.Mutex
	runs := map[string][]string{}
	var r troupe.Registry
	troupe.HandleClass(&r, "Php", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
		mu.Lock()
		defer mu.Unlock()
		args, _ := p.Get("args")
		runs[p.JID()] = append(runs[p.JID()], string(args))
		return errors.New("no")
	}))
	for _, job := range []string{
		`{"class":"Php","args":{"0":1,"name":"x"},"jid":"1","retry":true}`,
		`{"class":"Php","args":"{\"id\":7}","jid":2,"retry":true}`,
		`{"class":"Php","args":[1],"jid":"3","retry":true,"tags":"x","retry_for":2000000000}`,
		`{"class":"Php","args":[1],"jid":"4","retry":true,"retry_count":"0","failed_at":1}`,
		`{"class":"Php","jid":"5","retry":true}`,
		`{"args":[1],"jid":"6","retry":true}`,
	} {
		rdb.LPush(ctx, "queue:default", job)
	}
	testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 1}}})
	ran := func(n int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			for _, jid := range []string{"1", "2", "3", "4", "5"} {
				if len(runs[jid]) < n {
					return false
				}
			}
			return rdb.ZCard(ctx, "retry").Val() == 5
		}
	}
	testkit.Await(t, "each has failed once", ran(1))
	for _, job := range rdb.ZRange(ctx, "retry", 0, -1).Val() {
		rdb.ZAddXX(ctx, "retry", redis.Z{Score: 1, Member: job})
	}
	testkit.Await(t, "each has failed twice", ran(2))
	// Nobody can run a job without a class, and Ruby's poller would lose it.
	if dead := rdb.ZRange(ctx, "dead", 0, -1).Val(); len(dead) != 1 || !strings.HasPrefix(dead[0], `{"args":[1],"jid":"6","retry":true,`) {
		t.Errorf("dead are %q", dead)
	}
	want := map[string]string{"1": `[{"0":1,"name":"x"}]`, "2": `["{\"id\":7}"]`, "3": `[1]`, "4": `[1]`, "5": `[]`}
	for jid, args := range want {
		if got := runs[jid]; len(got) != 2 || got[0] != args && (jid != "5" || got[0] != "") || got[1] != args {
			t.Errorf("job %s ran with %q, want %s twice", jid, runs[jid], args)
		}
	}
}
