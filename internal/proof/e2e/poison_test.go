package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// keeper is a process manager: it starts a worker again when it has died.
type keeper struct {
	t    *testing.T
	spec workerSpec

	all    []*chaos.Process
	deaths int
}

func keep(t *testing.T, spec workerSpec, n int) *keeper {
	t.Helper()
	k := &keeper{t: t, spec: spec}
	for range n {
		k.all = append(k.all, startWorker(t, spec))
	}
	return k
}

// replace starts another worker for each that has died.
func (k *keeper) replace() {
	k.t.Helper()
	for i, p := range k.all {
		if !p.Running() {
			k.deaths++
			k.all[i] = startWorkerSoon(k.t, k.spec)
		}
	}
}

// One job that kills its process, among fifty that do not: it is dead in the end,
// they are done, and it took no more processes with it than the limit says.
func TestPoisonPillAmongInnocents(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d processes", processes), func(t *testing.T) {
			t.Parallel()
			rdb, url := redistest.New(t)
			rec := newRecords(t)
			raws := map[string]string{}
			pipe := rdb.TxPipeline()
			const killer = "00000000000000000000dead"
			add := func(jid, class, args string) {
				raws[jid] = fmt.Sprintf(`{"retry":true,"queue":"default","class":%q,"args":%s,"jid":%q,"n":1.10}`, class, args, jid)
				pipe.LPush(t.Context(), "queue:default", raws[jid])
			}
			for i := range 25 {
				add(fmt.Sprintf("%024x", i+1), "Nap", "[0.3]")
			}
			add(killer, "Kill", "[0.1]")
			for i := range 25 {
				add(fmt.Sprintf("%024x", i+26), "Nap", "[0.3]")
			}
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
			k := keep(t, workerSpec{
				// One that is fenced because the machine stands still costs innocents a recovery.
				Redis: url, Records: rec.url, Lease: 5 * time.Second, Timeout: 5 * time.Second,
				Capsules: []capsuleSpec{{Concurrency: 50, Queues: []string{"default"}}},
			}, processes)
			harness.AwaitFor(t, 3*time.Minute, "one job is dead, fifty are done", func() bool {
				k.replace()
				return rdb.ZCard(t.Context(), "dead").Val() == 1 && len(ran(rec)) == 50 && len(leftovers(t, rdb)) == 1
			})
			harness.Equal(t, "processes died", k.deaths, 3)
			dead := only(t, rdb, "dead")
			if dead.JID() != killer {
				t.Errorf("dead: %s", dead.Bytes())
			}
			if class, _ := dead.String("error_class"); class != "Troupe::PoisonPill" {
				t.Errorf("error_class %q", class)
			}
			if _, ok := dead.Time("failed_at"); !ok {
				t.Error("no failed_at: Ruby's UI cannot show it")
			}
			var evidence []struct {
				At      time.Time
				Process string
				Suspect bool
				Cause   string
			}
			raw, _ := dead.Get("recoveries")
			if err := json.Unmarshal(raw, &evidence); err != nil || len(evidence) != 3 || !evidence[2].Suspect || evidence[1].Suspect ||
				evidence[2].Process == "" || evidence[2].Cause != "the process has ended" {
				t.Errorf("evidence %s (%v)", raw, err)
			}
			harness.AwaitFor(t, time.Minute, "its death handlers have run", func() bool { return len(rec.find("death", "")) > 0 })
			if deaths := rec.find("death", ""); len(deaths) != 1 || deaths[0].JID != killer {
				t.Errorf("death handlers: %+v", deaths)
			}
			for _, e := range rec.find("start", "") {
				if e.Payload != raws[e.JID] || e.Queue != "default" {
					t.Errorf("%s ran from queue %s as %s, pushed %s", e.JID, e.Queue, e.Payload, raws[e.JID])
				}
			}
			testkit.Await(t, "all who have ended are cleared of a second death", func() bool {
				for jid, text := range rdb.HGetAll(t.Context(), "troupe:recovered:log").Val() {
					var n []json.RawMessage
					if json.Unmarshal([]byte(text), &n) != nil || len(n) > 1 {
						t.Logf("%s: %s", jid, text)
						return false
					}
				}
				return true
			})
			for _, p := range k.all {
				p.Stop(soon)
			}
		})
	}
}
