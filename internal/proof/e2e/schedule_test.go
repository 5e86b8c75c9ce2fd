package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// lateness is what a job may start after its time in a test on a loaded
// machine; the promise is 100 ms, and whoever does not watch is ten seconds late.
const lateness = 4 * time.Second

// due returns how long after its time the job started.
func due(t testing.TB, rec *records, jid string, score float64) time.Duration {
	t.Helper()
	e := rec.await(soon, 1, "start", jid)[0]
	late := time.Duration(float64(e.At) - score*1e9)
	if late < 0 || late > lateness {
		t.Errorf("started %s after its time", late)
	}
	return late.Round(100 * time.Microsecond)
}

func TestAScheduledJobStartsOnTime(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	startWorker(t, workerSpec{Redis: url, Records: rec.url})
	// by the command, by the client, by Ruby: each into an idle daemon
	procs.Command(t) // it is built before the time begins to run
	at := time.Now().Add(4 * time.Second)
	p := procs.Troupe(t, nil, "push", "Record", "--at", string(scores.Format(scores.Of(at))), "--redis", url)
	if code := p.Exit(soon); code != 0 {
		t.Fatalf("push: %s", p.Stderr())
	}
	check := func(who, jid string, score float64) {
		t.Helper()
		t.Logf("%s: started %s after its time", who, due(t, rec, jid, score))
		clean(t, rdb)
	}
	check("command", strings.TrimSpace(p.Stdout()), scores.Of(at))
	at = time.Now().Add(500 * time.Millisecond)
	jid, _ := push(t, rdb, "Record", "[]", client.At(at))
	check("client", jid, scores.Of(at))
	var score float64
	ruby(t, url, `at = Time.now.to_f + 1.5
show([Sidekiq::Client.push("class" => "Record", "args" => [], "at" => at), at])`, &[]any{&jid, &score})
	check("Ruby", jid, score)
	score = scores.Of(time.Now().Add(500 * time.Millisecond))
	jid = "0123456789abcdef01234567"
	if err := rdb.ZAdd(t.Context(), "retry", redis.Z{Score: score, Member: `{"retry":true,"queue":"default","class":"Record",` +
		`"args":[],"jid":"` + jid + `","created_at":1795224881.1,"failed_at":1795224881.2,"retry_count":0}`}).Err(); err != nil {
		t.Fatal(err)
	}
	check("a retry", jid, score)
}

// The process that watches the sets dies; another takes over within a second.
func TestAnotherProcessTakesTheWatchOver(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	byIdentity := map[string]*chaos.Process{}
	for range 3 {
		p := startWorker(t, workerSpec{Redis: url, Records: rec.url, Lease: 2 * time.Second})
		byIdentity[p.Ready()] = p
	}
	for round := range 2 {
		// the third process asks for the seat that is free in round 1 within 4 s
		var leader string
		testkit.Await(t, "somebody watches", func() bool {
			leader = rdb.Get(t.Context(), "troupe:poller").Val()
			return byIdentity[leader] != nil && rdb.Exists(t.Context(), "troupe:poller:standby").Val() == 1
		})
		// due shortly after the watcher's death, and pushed after it
		at := time.Now().Add(1300 * time.Millisecond)
		before, _ := push(t, rdb, "Record", "[]", client.At(at))
		byIdentity[leader].Kill()
		delete(byIdentity, leader)
		late := due(t, rec, before, scores.Of(at))
		at = time.Now().Add(200 * time.Millisecond)
		after, _ := push(t, rdb, "Record", "[]", client.At(at))
		t.Logf("round %d: a job pushed before the death started %s after its time, one pushed after it %s", round, late,
			due(t, rec, after, scores.Of(at)))
	}
	clean(t, rdb)
}
