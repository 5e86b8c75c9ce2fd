package scaletest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit/chaos"
)

// fleet is processes that somebody starts again when they have died.
type fleet struct {
	t      *testing.T
	url    string
	all    []*chaos.Process // those that have died, too
	deaths int
}

func (f *fleet) start(n int) {
	f.t.Helper()
	for range n {
		f.all = append(f.all, procs.Worker(f.t, fmt.Sprint("process ", len(f.all)), f.url))
	}
}

// replace starts another process for each that has died.
func (f *fleet) replace() {
	f.t.Helper()
	dead := 0
	for _, p := range f.all {
		if !p.Running() {
			dead++
		}
	}
	f.start(dead - f.deaths)
	f.deaths = dead
}

// done is how many jobs have come to their end.
func (f *fleet) done() map[string]int {
	out := make(map[string]int)
	for _, p := range f.all {
		for line := range strings.Lines(p.Stdout()) {
			if jid, ok := strings.CutPrefix(strings.TrimSpace(line), "done "); ok {
				out[jid]++
			}
		}
	}
	return out
}

// One job that kills its process, among twenty that do not, in queues of several
// slots: it is dead in the end, they are done, and it took no more processes with
// it than the limit says.
func TestAPoisonPillOnACluster(t *testing.T) {
	rdb, cluster := redistest.NewCluster(t)
	c := client.New(rdb)
	naps := push(t, c, 18, "nap")
	killer := harness.Must(c.PushClass(t.Context(), "Job", []any{"kill"}, client.Queue("q0")))(t)
	for range 2 {
		jid := harness.Must(c.PushClass(t.Context(), "Job", []any{"nap"}, client.Queue("q0")))(t)
		naps = append(naps, jid)
	}
	f := &fleet{t: t, url: cluster.URL()}
	f.start(2)
	harness.AwaitFor(t, patience, "one job is dead, twenty are done", func() bool {
		f.replace()
		dead, err := rdb.ZCard(t.Context(), keys.Dead).Result()
		return err == nil && dead == 1 && len(f.done()) == 20 && held(t, cluster) == 0
	})
	harness.Equal(t, "processes died", f.deaths, 3)
	done := f.done()
	for _, jid := range naps {
		if done[jid] == 0 {
			t.Errorf("%s has not run", jid)
		}
	}
	dead, err := troupe.ParsePayload([]byte(rdb.ZRange(t.Context(), keys.Dead, 0, 0).Val()[0]))
	if err != nil || dead.JID() != killer {
		t.Fatalf("dead: %s, %v", dead.Bytes(), err)
	}
	var evidence []struct {
		Process string
		Suspect bool
		Cause   string
	}
	raw, _ := dead.Get("recoveries")
	if err := json.Unmarshal(raw, &evidence); err != nil || len(evidence) != 3 || evidence[1].Suspect || !evidence[2].Suspect ||
		evidence[2].Process == "" || evidence[2].Cause != "the process has ended" {
		t.Errorf("evidence %s (%v)", raw, err)
	}
	harness.AwaitFor(t, patience, "all who have ended are cleared of a second death", func() bool {
		for q := range 3 {
			known, err := rdb.HGetAll(t.Context(), keys.ClusterRecoveredLog(fmt.Sprintf("q%d", q))).Result()
			for jid, text := range known {
				var n []json.RawMessage
				if json.Unmarshal([]byte(text), &n) != nil || len(n) > 1 || jid == killer {
					return false
				}
			}
			if err != nil || rdb.Exists(t.Context(), keys.ClusterSuspects(fmt.Sprintf("q%d", q))).Val() != 0 {
				return false
			}
		}
		return true
	})
	for _, p := range f.all {
		if p.Running() {
			p.Stop(patience)
		}
	}
}

// orphan is a job of q0 that a dead process had in progress.
func orphan(t *testing.T, rdb *redis.ClusterClient, raw string) {
	t.Helper()
	const id = "elsewhere:7:cafe#default.1"
	s, common := keys.SlotOf("q0", true), keys.CommonOf(id, true)
	for _, err := range []error{
		rdb.LPush(t.Context(), s.List(id, "1.1"), raw).Err(),
		rdb.HSet(t.Context(), s.Index(id), "!", "1 1", "1.1", "q0 100").Err(),
		rdb.HSet(t.Context(), s.Registry(), id, `{"v":2,"queues":["q0"]}`).Err(),
		rdb.HSet(t.Context(), common.Owners, id, `{"v":2,"queues":["q0"]}`).Err(),
		rdb.ZAdd(t.Context(), common.Expiries, redis.Z{Score: 1, Member: id}).Err(),
	} {
		harness.OK(t, err)
	}
}

// Where recovered jobs go is the affair of their class, on a cluster as elsewhere;
// a job that changes its queue takes its count along.
func TestRecoveredJobsOnAClusterAreRouted(t *testing.T) {
	for name, c := range map[string]struct {
		class   troupe.Recovery
		poison  actors.Poison
		key     string // where it ends
		counted string // the queue whose slot counts it
	}{
		"same":        {key: "queue:q0", counted: "q0"},
		"queue":       {class: troupe.Recovery{Queue: "q2"}, key: "queue:q2", counted: "q2"},
		"delay":       {class: troupe.Recovery{Delay: time.Hour}, key: keys.Schedule, counted: "q0"},
		"dead":        {class: troupe.Recovery{Dead: true}, key: keys.Dead},
		"suspect":     {poison: actors.Poison{Suspect: 1}, key: "{queue:q0}.suspects", counted: "q0"},
		"no suspects": {poison: actors.Poison{Recoveries: 1, Suspect: -1}, key: keys.Dead},
		"no limit":    {class: troupe.Recovery{Queue: "q2"}, poison: actors.Poison{Recoveries: -1}, key: "queue:q2"},
	} {
		t.Run(name, func(t *testing.T) {
			rdb, cluster := redistest.NewCluster(t)
			ctx := t.Context()
			raw := `{"class":"Job","jid":"j1","args":[1.10],"queue":"q0","retry":true}`
			orphan(t, rdb, raw)
			rdb.SAdd(ctx, keys.Paused, "q0", "q2") // nobody takes it from there
			cfg := config(rdb, &record{})
			var registry troupe.Registry
			troupe.HandleClass(&registry, "Job", &record{}, troupe.Options{Recovery: c.class})
			cfg.Registry, cfg.Poison = &registry, c.poison
			start(t, cfg)
			var got string
			harness.AwaitFor(t, patience, "the job has come to "+c.key, func() bool {
				if c.key == keys.Schedule || c.key == keys.Dead {
					got = strings.Join(rdb.ZRange(ctx, c.key, 0, -1).Val(), "")
				} else {
					got = strings.Join(rdb.LRange(ctx, c.key, 0, -1).Val(), "")
				}
				return got != "" && held(t, cluster) == 0
			})
			if c.key == "queue:q0" || strings.HasSuffix(c.key, keys.SuspectsSuffix) {
				if got != raw {
					t.Errorf("went back as %s, was %s", got, raw)
				}
			} else if p, err := troupe.ParsePayload([]byte(got)); err != nil || string(p.Args()) != "[1.10]" || p.Tags()[0] != "recovered" {
				t.Errorf("moved as %s", got)
			}
			for _, q := range []string{"q0", "q2"} {
				if counted := rdb.HExists(ctx, keys.ClusterRecoveredLog(q), "j1").Val(); counted != (q == c.counted) {
					t.Errorf("counted in the slot of %s: %v", q, counted)
				}
			}
		})
	}
}
