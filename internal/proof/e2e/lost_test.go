package e2e

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// takes tells how many units a fetch call asks for, and whether it carries acks.
func takes(c command) (asks int, acks bool) {
	if !c.runs("fetch.take") {
		return 0, false
	}
	argv := c.argv()
	asks, _ = strconv.Atoi(argv[2])
	return asks, argv[4] != "0"
}

func settles(place string) func(command) bool {
	return func(c command) bool {
		if !c.runs("fetch.settle") {
			return false
		}
		return c.argv()[5] == place
	}
}

func hasJob(reply string) bool { return strings.Contains(reply, `"jid"`) }

// A user gives the daemon a go-redis client as NewClient makes it, which repeats
// a command three times when its reply is lost. One reply is lost at each step of
// a job's life: the job has run once, and is where it belongs.
func TestOneLostReplyLosesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		command func(command) bool
		reply   func(string) bool
		class   string
		opts    []client.Option
		runs    int
		end     string // the set in which the job ends up
		stop    bool   // TERM while it runs
		early   bool   // it waits in the queue when the process starts
	}{
		{name: "fetch", command: func(c command) bool { n, _ := takes(c); return n > 0 }, reply: hasJob, class: "Record", runs: 1, early: true},
		{name: "blocked move", command: func(c command) bool { return c.is("blmove") }, reply: hasJob, class: "Record", runs: 1},
		{name: "ack", command: func(c command) bool { _, acks := takes(c); return acks }, class: "Record", runs: 1},
		{name: "retry", command: settles("1"), class: "Fail", runs: 1, end: "retry"},
		{name: "death", command: settles("3"), class: "Fail", opts: []client.Option{client.Retry(0)}, runs: 1, end: "dead"},
		{name: "requeue", command: settles("0"), class: "HangOnce", runs: 1, end: "queue:default", stop: true},
		{name: "promotion", command: func(c command) bool { return c.runs("sched.move") }, class: "Record", opts: []client.Option{client.In(50 * time.Millisecond)}, runs: 1},
		{name: "registration", command: func(c command) bool { return c.runs("fetch.begin") }, class: "Record", runs: 1},
		{name: "waiting list", command: func(c command) bool { return c.runs("fetch.open") }, class: "Record", runs: 1},
		{name: "lease", command: func(c command) bool { return c.runs("fetch.renew") }, class: "Nap", runs: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rdb, url := redistest.New(t)
			rec := newRecords(t)
			way := newLossy(t, url)
			way.lose(c.command, c.reply)
			spec := workerSpec{Redis: way.url, Records: rec.url, Lease: 3 * time.Second, Timeout: 500 * time.Millisecond}
			jid := ""
			if c.early {
				jid, _ = push(t, rdb, c.class, "[1]", c.opts...)
			}
			p := startWorker(t, spec)
			if c.name == "blocked move" {
				testkit.Await(t, "it waits for a push", func() bool { return waiting(t, rdb) == 1 })
			}
			if !c.early {
				jid, _ = push(t, rdb, c.class, "[1]", c.opts...)
			}
			rec.await(soon, 1, "start", jid)
			if c.stop {
				p.Signal(syscall.SIGTERM)
			}
			select {
			case <-way.lost:
			case <-time.After(soon):
				t.Fatal("nothing was lost")
			}
			if c.stop {
				harness.Equal(t, "exit code", p.Exit(soon), 0)
			}
			testkit.Await(t, "the job is in "+c.end, func() bool {
				return where(t, rdb, jid) == c.end && len(private(t, rdb)) == 0 && len(leftovers(t, rdb)) == min(1, len(c.end))
			})
			rec.await(soon, c.runs, "end", jid)
			harness.Equal(t, "the job ran times", len(rec.find("start", jid)), c.runs)
			if c.stop {
				return
			}
			next, _ := push(t, rdb, "Record", "[2]") // it works on
			rec.await(soon, 1, "end", next)
			p.Stop(soon)
			harness.Equal(t, "stat:processed is after 2 executions", rdb.Get(t.Context(), "stat:processed").Val(), "2")
		})
	}
}

// The reply to a flush of the statistics is lost: it is not counted twice.
func TestLostReplyToTheStatistics(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	way := newLossy(t, url)
	way.lose(func(c command) bool { return c.runs("beat.flush") }, nil)
	p := startWorker(t, workerSpec{Redis: way.url, Records: rec.url})
	const n = 20
	for range n {
		push(t, rdb, "Record", "[]")
	}
	rec.await(soon, n, "end", "")
	clean(t, rdb)
	p.Signal(osproc.Quiet) // beats, and flushes
	select {
	case <-way.lost:
	case <-time.After(soon):
		t.Fatal("nothing was lost")
	}
	p.Stop(soon)
	if s := rdb.Get(t.Context(), "stat:processed").Val(); s != strconv.Itoa(n) {
		t.Errorf("stat:processed is %s after %d executions", s, n)
	}
}

// The reply to a rescuer is lost.
func TestLostReplyToTheRescuer(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"fence", "reroute", "putback", "finish"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			rdb, url := redistest.New(t)
			rec := newRecords(t)
			way := newLossy(t, url)
			dies := startWorker(t, workerSpec{Redis: url, Records: rec.url, Lease: 2 * time.Second})
			raws := hang(t, rdb, rec, 5)
			way.lose(func(c command) bool { return c.runs("rescue." + script) }, nil)
			lives := startWorker(t, workerSpec{Redis: way.url, Records: rec.url, Lease: 2 * time.Second})
			dies.Kill()
			rescued(t, rdb, rec, lives, raws, soon)
			select {
			case <-way.lost:
			case <-time.After(soon): // the last ones come after the jobs are back
				t.Error("nothing was lost")
			}
		})
	}
}

// A push whose reply is lost is an error to its caller, and in Redis once: a
// default client would have repeated it.
func TestLostReplyToAPush(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	startWorker(t, workerSpec{Redis: url, Records: rec.url})
	way := newLossy(t, url)
	options, err := redis.ParseURL(way.url)
	if err != nil {
		t.Fatal(err)
	}
	user := redis.NewClient(options)
	defer func() { _ = user.Close() }()
	c := client.New(user)
	if _, err := c.PushClass(t.Context(), "Record", nil); err != nil { // the connection is made
		t.Fatal(err)
	}
	way.lose(func(c command) bool { return c.is("lpush") }, nil)
	if jid, err := c.PushClass(t.Context(), "Record", []any{"lost"}); err == nil {
		t.Errorf("a push without a reply returned jid %s and no error", jid)
	}
	way.lose(func(c command) bool { return c.is("zadd") }, nil)
	if _, err := c.PushClass(t.Context(), "Record", []any{"later"}, client.In(time.Second)); err == nil {
		t.Error("a scheduled push without a reply returned no error")
	}
	rec.await(soon, 3, "end", "")
	clean(t, rdb)
	harness.Equal(t, "runs of 3 pushes", len(rec.find("start", "")), 3)
}
