package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/control"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// night is what the page is run against: a Redis of its own, and processes that are called on the
// page by other names.
type night struct {
	t       *testing.T
	dir     string
	server  *testkit.Server
	rdb     *redis.Client
	names   map[string]string // on the page -> the identity
	kits    map[string]*testkit.Kit
	release chan struct{} // ends the running reports
	stuck   chan struct{} // ends the import
	jobs    int
}

// start starts the process that the page calls name.
func (n *night) start(name string, concurrency int, queues ...string) *testkit.Kit {
	n.t.Helper()
	release := n.release
	var r troupe.Registry
	waits := troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-release:
			return nil
		}
	})
	troupe.HandleClass(&r, "Report", waits)
	troupe.HandleClass(&r, "Export", waits)
	troupe.HandleClass(&r, "Import", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { <-n.stuck; return nil }))
	for _, class := range []string{"Mail", "Invoice", "Refund"} {
		troupe.HandleClass(&r, class, troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }))
	}
	k := testkit.Start(n.t, actors.Config{
		Redis: redis.NewClient(n.server.Options()), Registry: &r, Concurrency: concurrency, Queues: actors.Strict(queues), Logger: zerolog.Nop(),
		Timeout: 100 * time.Millisecond, Grace: 20 * time.Millisecond,
	})
	n.names[name], n.kits[name] = k.Identity(), k
	return k
}

// ended ends the process of a name.
func (n *night) ended(name string) {
	n.t.Helper()
	n.kits[name].Stop()
	delete(n.kits, name)
}

func (n *night) do(args ...any) {
	n.t.Helper()
	if err := n.rdb.Do(n.t.Context(), args...).Err(); err != nil && !errors.Is(err, redis.Nil) {
		n.t.Fatal(args, err)
	}
}

// job is one of a class, pushed five minutes ago, with a jid of its own or that one.
func (n *night) job(class, queue, jid, args, more string) string {
	n.jobs++
	if jid == "" {
		jid = fmt.Sprintf("%024x", n.jobs)
	}
	at := time.Now().Add(-5 * time.Minute).Unix()
	return fmt.Sprintf(`{"retry":true,"queue":%q,"class":%q,"args":[%s],"jid":%q,"created_at":%d.5,"enqueued_at":%d.5%s}`, queue, class, args, jid, at, at, more)
}

func (n *night) push(class, queue, jid, args string) {
	n.t.Helper()
	n.do("SADD", "queues", queue)
	n.do("LPUSH", "queue:"+queue, n.job(class, queue, jid, args, ""))
}

// busy waits until a process runs so many jobs, and has told it.
func (n *night) busy(name string, jobs int) {
	n.t.Helper()
	k := n.kits[name]
	k.Await("its jobs run", func() bool { return k.Stats().Busy == jobs })
	n.beat(name)
}

// beat has a process tell what is so.
func (n *night) beat(name string) {
	n.t.Helper()
	harness.OK(n.t, control.Send(n.t.Context(), n.rdb, []string{n.names[name]}, control.Request{Do: control.Look}, func(control.Reply) bool { return true }))
}

// listed is a process that this test only claims to be there.
func (n *night) listed(id, queues string, rtt int) {
	n.do("SADD", "processes", id)
	n.do("HSET", id, "info", fmt.Sprintf(`{"hostname":"h","pid":1,"identity":%q,"concurrency":2,"queues":[%s]}`, id, queues), "busy", 0, "beat", time.Now().Unix(), "quiet", "false", "rtt_us", rtt)
}

const (
	web1, web2, web3 = "web-1:4711:0123456789ab", "web-2:52:ba9876543210", "web-3:77:00112233aabb"
	job7, db2        = "job-7:31:00ff00ff00ff", "db-2:99:fedcba987654"
)

// events is what happens before the blocks of commands of a section, one by one.
var events = map[string][]func(n *night){
	"First": {func(n *night) {
		k := n.start(web1, 2, "default")
		n.push("Mail", "default", "", "")
		k.Await("it has run", func() bool { return k.Stats().Processed == 1 })
		n.beat(web1)
	}},
	"A queue grows: nobody listens": {func(n *night) {
		n.push("Mail", "mail", "4f1c2a9e8b7d6c5f3e2d1a00", "")
		n.push("Mail", "mail", "", "")
		n.push("Mail", "mail", "", "")
	}, nil},
	"A queue grows: all are busy": {func(n *night) {
		n.push("Report", "default", "", `"june"`)
		n.push("Report", "default", "", `"july"`)
		n.busy(web1, 2)
		n.push("Report", "default", "7d0e9b5a4c3f2e1d0c9b8a01", `"august"`)
	}, nil},
	"A queue grows: it is paused": {func(n *night) {
		close(n.release)
		n.kits[web1].Await("the reports are done", func() bool { return n.kits[web1].Stats().Busy == 0 })
		n.run("troupe queues pause mail")
		n.push("Mail", "mail", "", "")
		stayed := 0
		n.kits[web1].Await("a job stays: the pause is seen within 2.5 s", func() bool {
			if stayed++; n.rdb.LLen(n.t.Context(), "queue:mail").Val() == 0 {
				stayed = 0
				n.push("Mail", "mail", "", "")
			}
			return stayed == 20
		})
		n.push("Mail", "mail", "", "")
	}, nil},
	"Jobs are held": {func(n *night) {
		at := time.Now().Add(-5 * time.Minute).Unix()
		n.do("HSET", "troupe:limits", "payments-api", "0 pinned 5")
		n.do("ZADD", "troupe:held", at, "payments-api")
		for i, jid := range []string{"", "", "5d4c3b2a19080706f5e4d308"} {
			n.do("ZADD", "troupe:held:payments-api", at, fmt.Sprintf("%d000000.%d.1 [\"queue:default\",\"default\",%q,\"payments-api\"]\n%s", at, i, fmt.Sprint("held", i), n.job("Invoice", "default", jid, fmt.Sprint(i), "")))
		}
	}, nil},
	"A queue grows: Redis is slow": {func(n *night) { n.listed(db2, `"default"`, 180_000) }},
	"Retries rise": {func(n *night) {
		n.do("SREM", "processes", db2)
		const failed = `,"error_class":%q,"error_message":%q,"failed_at":1795225014.5,"retry_count":0`
		at := time.Now().Add(20 * time.Minute).Unix()
		for i := range 38 {
			jid := ""
			if i == 0 {
				jid = "9a8b7c6d5e4f3a2b1c0d9e02"
			}
			n.do("ZADD", "retry", at+int64(i), n.job("Invoice", "default", jid, fmt.Sprint(i), fmt.Sprintf(failed, "Net::HTTPFatalError", "502 Bad Gateway")))
		}
		n.do("ZADD", "retry", at+99, n.job("Mail", "default", "", "", fmt.Sprintf(failed, "KeyError", "to")), at+100, n.job("Mail", "default", "", "", fmt.Sprintf(failed, "KeyError", "from")))
	}, nil},
	"A process has died": {func(n *night) {
		n.do("SET", "troupe:rescue", "the test", "PX", 600_000) // no rescuer takes its jobs yet
		at := time.Now().Add(-42 * time.Second)
		n.do("SET", "troupe:pulse:"+job7, fmt.Sprintf(`{"at":%d,"version":"0.1.0","phase":"running","capsules":[{"name":"default","busy":1,"idle":1}]}`, at.Unix()))
		n.do("ZADD", "troupe:pulses", at.Unix(), job7)
		n.do("HSET", "troupe:places", job7+"#default.1", `{"v":2,"queues":["reports"]}`)
		n.do("HSET", "troupe:inprogress:"+job7+"#default.1", "!", "1 7", "7.1", fmt.Sprintf("reports %d", at.UnixMilli()))
		n.do("LPUSH", "troupe:claim:"+job7+"#default.1:7.1", n.job("Report", "reports", "2b3c4d5e6f708192a3b4c503", "", ""))
	}, func(n *night) {
		n.ended(web1) // no process of troupe is left
		n.do("DEL", "troupe:rescue")
	}},
	"A job kills its process": {func(n *night) {
		n.do("DEL", "troupe:pulses", "queue:reports")
		n.do("SREM", "queues", "reports")
		n.start(web1, 2, "default", "mail")
		n.push("Thumbnail", "images.suspects", "1029384756a7b8c9d0e1f205", `"huge.png"`)
		n.do("ZADD", "dead", time.Now().Unix(), n.job("Thumbnail", "images", "5e6f7081920a3b4c5d6e7f04", `"bomb.png"`, `,"error_class":"Troupe::PoisonPill","error_message":"in progress at the death of 3 processes within 72h0m0s"`))
	}, nil},
	"An unresponsive job": {func(n *night) {
		n.do("DEL", "queue:images.suspects")
		n.do("SREM", "queues", "images.suspects")
		n.ended(web1)
		n.release = make(chan struct{})
		k := n.start(web1, 2, "default", "mail")
		n.push("Import", "default", "33445566778899aabbccdd06", "")
		n.busy(web1, 1)
		k.Cancel("33445566778899aabbccdd06")
		k.Await("it is noticed", func() bool { return len(k.Tree().Find("launcher/default").Unresponsive) == 1 })
		n.beat(web1)
	}, nil},
	"A storm of restarts": {func(n *night) {
		close(n.release)
		close(n.stuck)
		n.release = make(chan struct{})
		n.start(web1, 2, "default", "mail")
		k := n.start(web2, 2, "other")
		for i := range 5 {
			k.Await("it runs", func() bool { return k.Tree().Find("launcher/default/processor-0").State == actors.StateIdle })
			k.Crash("launcher/default/processor-0", errors.New("assignment to entry in nil map"))
			k.Await("it is restarted", func() bool { return k.Tree().Find("launcher/default/processor-0").Restarts == i+1 })
		}
		k.Await("it runs", func() bool { return k.Tree().Find("launcher/default/processor-0").State == actors.StateIdle })
		n.beat(web2)
	}},
	"Redis is full, or evicts": {func(n *night) {
		n.ended(web2)
		n.do("SETRANGE", "filler", 30<<20, "x")
		used := 0
		for line := range strings.Lines(n.rdb.Info(n.t.Context(), "memory").Val()) {
			_, _ = fmt.Sscanf(line, "used_memory:%d", &used)
		}
		n.do("CONFIG", "SET", "maxmemory", used+used/15)
		n.do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		for range 150 {
			n.push("Log", "logs", "", `"x"`)
		}
	}, func(n *night) {
		n.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
		n.do("CONFIG", "SET", "maxmemory", 0)
	}},
	"Redis is away": {func(n *night) {
		n.do("DEL", "filler")
		n.server.Kill()
		n.kits[web1].Await("it knows", func() bool { return n.kits[web1].Stats().RedisAway })
	}, func(n *night) {
		n.server.Restart()
		n.kits[web1].Await("it knows", func() bool { return !n.kits[web1].Stats().RedisAway })
	}},
	"Rows of an outbox wait": {nil},
	"A deploy is stuck in quiet": {func(n *night) {
		k := n.start(web3, 2, "slow")
		n.push("Report", "slow", "", `"may"`)
		n.busy(web3, 1)
		k.Quiet()
		n.push("Report", "slow", "", `"june"`)
		n.beat(web3)
	}, nil},
	"A wrong deploy has killed jobs": {func(n *night) {
		for i := range 130 {
			n.do("ZADD", "dead", time.Now().Add(-time.Minute).Unix()+int64(i%50), n.job("Refund", "default", "", fmt.Sprint(i), `,"error_class":"KeyError","error_message":"key not found: :amount","retry_count":0,"failed_at":`+fmt.Sprint(time.Now().Unix()-60)))
		}
	}, nil},
	"One job must end now": {func(n *night) {
		n.push("Export", "default", "778899aabbccddeeff001107", "")
		n.busy(web1, 1)
	}, nil},
	"A job ran twice": {nil}, // the unresponsive one did
}

// block is a fenced block of the page.
type block struct {
	section, kind string
	line          int
	text          []string
}

func blocksOf(t *testing.T, page string) (blocks []block) {
	t.Helper()
	text := harness.Must(os.ReadFile(page))(t)
	section, inside := "", false
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, "```") && !inside:
			blocks = append(blocks, block{section, strings.TrimPrefix(line, "```"), i + 2, nil})
			inside = true
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside:
			blocks[len(blocks)-1].text = append(blocks[len(blocks)-1].text, line)
		case strings.HasPrefix(line, "## "):
			section = strings.TrimPrefix(line, "## ")
		}
	}
	return blocks
}

// run runs a command of the page in a shell, and returns the lines that it prints.
func (n *night) run(command string) []string {
	n.t.Helper()
	var there, back []string
	for name, id := range n.names {
		there, back = append(there, name, id), append(back, id, name)
	}
	cmd := exec.CommandContext(n.t.Context(), "sh", "-c", strings.NewReplacer(there...).Replace(command)) //nolint:gosec // of our own page
	cmd.Dir, cmd.Env = n.dir, append(os.Environ(), "REDIS_URL="+n.server.URL(0))
	out, err := cmd.CombinedOutput()
	if _, exit := errors.AsType[*exec.ExitError](err); err != nil && !exit {
		n.t.Fatal(command, err)
	}
	return strings.Split(strings.TrimSuffix(strings.NewReplacer(back...).Replace(string(out)), "\n"), "\n")
}

// meets takes from want what lines have, in this order.
func meets(lines, want []string) []string {
	for _, line := range lines {
		if len(want) > 0 && pattern(want[0]).MatchString(line) {
			want = want[1:]
		}
	}
	return want
}

// Every command of the runbook is run, in a night in which all happens of which it tells; it says what
// the page quotes.
func TestTheRunbook(t *testing.T) {
	t.Parallel()
	blocks := blocksOf(t, "../../docs/runbook.md")
	n := &night{t: t, dir: t.TempDir(), names: map[string]string{}, kits: map[string]*testkit.Kit{}, release: make(chan struct{}), stuck: make(chan struct{})}
	n.server = testkit.NewServer(t, "--appendonly", "yes", "--appendfsync", "no") // a busy disk holds it up otherwise
	n.rdb = n.server.Client
	t.Cleanup(func() { close(n.release) })
	seen := map[string]int{}
	for i, b := range blocks {
		switch b.kind {
		case "sh":
		case "text":
			if i == 0 || blocks[i-1].kind != "sh" {
				t.Errorf("line %d: no command prints this", b.line)
			}
			continue
		default:
			t.Errorf("line %d: a block is %q, expected sh or text", b.line, b.kind)
		}
		if steps := events[b.section]; seen[b.section] >= len(steps) {
			t.Fatalf("line %d: nothing is told of what happens before block %d of %q", b.line, seen[b.section]+1, b.section)
		} else if step := steps[seen[b.section]]; step != nil {
			step(n)
		}
		seen[b.section]++
		var want []string
		if i+1 < len(blocks) && blocks[i+1].kind == "text" {
			want = slices.DeleteFunc(slices.Clone(blocks[i+1].text), func(line string) bool { return line == "" })
		}
		var all, again []string
		for _, command := range b.text {
			lines := n.run(command)
			all = append(all, append([]string{"$ " + command}, lines...)...)
			want = meets(lines, want)
		}
		for end := time.Now().Add(30 * time.Second); len(want) > 0 && time.Now().Before(end); { // what is told last may take its time
			again = n.run(b.text[len(b.text)-1])
			want = meets(again, want)
		}
		if len(want) > 0 {
			t.Errorf("line %d, %q: no line is\n%s\nbut\n%s", b.line, b.section, want[0], strings.Join(append(all, again...), "\n"))
		}
	}
	for section, steps := range events {
		if seen[section] != len(steps) {
			t.Errorf("the section %q has %d blocks of commands, expected %d", section, seen[section], len(steps))
		}
	}
}
