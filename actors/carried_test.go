package actors_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// What other people's middleware puts into a job is there in every run, byte for
// byte, whatever became of the run before: failed, parked, interrupted, killed
// and pushed again by hand; and in the hands of the death handlers.
func TestAJobCarriesWhatOthersPutIntoIt(t *testing.T) {
	fields := map[string]string{
		"cattr": `{"user":7,"tenant":"é<&>","_aj_symbol_keys":["user"]}`, "cattr_1": `{"big":123456789012345678901234567890}`,
		"locale": `"d\u0065"`, "tags": `["x","é"]`, "log_level": `"warn"`, "bid": `"b-1"`, "custom": `{"z":1.10,"a":[1e3,null]}`,
	}
	raw := `{"class":"Carrier","args":[-0,1E+2],"jid":"c1","queue":"default","retry":5`
	for _, key := range []string{"cattr", "cattr_1", "locale", "tags", "log_level", "bid", "custom"} {
		raw += `,"` + key + `":` + fields[key]
	}
	raw += "}"

	check := func(where string, p *troupe.Payload) {
		for key, want := range fields {
			if got, _ := p.Get(key); string(got) != want {
				t.Errorf("%s: %s is %s, want %s", where, key, got, want)
			}
		}
		if !slices.Equal(p.Tags(), []string{"x", "é"}) || string(p.Args()) != "[-0,1E+2]" {
			t.Errorf("%s: tags %q, args %s", where, p.Tags(), p.Args())
		}
	}
	runs := make(chan int, 10)
	run, died := 0, false // one job: one after the other
	var r troupe.Registry
	troupe.HandleClass(&r, "Carrier", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
		run++
		check(fmt.Sprintf("run %d", run), p)
		runs <- run
		p.SetString("locale", "changed by the handler")
		switch run {
		case 1:
			return errors.New("on purpose")
		case 2:
			return troupe.Park(0, nil)
		case 3:
			return troupe.ErrInterrupted
		case 4:
			panic("on purpose")
		}
		return troupe.Kill(nil)
	}))
	rdb := testkit.Redis(t)
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: &r, PollInterval: 10 * time.Millisecond, Capsules: []actors.Capsule{{Concurrency: 1}},
		DeathHandlers: []actors.DeathHandler{func(_ context.Context, p *troupe.Payload, _ error) {
			check("death handler", p)
			died = true
		}},
	})
	harness.OK(t, rdb.LPush(ctx, "queue:default", raw).Err())
	for range 5 {
		k.Await("the next run", func() bool {
			for _, member := range rdb.ZRange(ctx, "retry", 0, -1).Val() { // do not wait for its time
				rdb.ZAddXX(ctx, "retry", redis.Z{Score: 1, Member: member})
			}
			select {
			case <-runs:
				return true
			default:
				return false
			}
		})
	}
	k.Await("death", func() bool { return size(t, rdb, "dead") == 1 })
	k.Stop()
	p := harness.Must(troupe.ParsePayload([]byte(rdb.ZRange(ctx, "dead", 0, -1).Val()[0])))(t)
	check("dead set", p)
	if !died {
		t.Error("no death handler ran")
	}
}
