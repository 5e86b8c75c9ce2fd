package screen_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/internal/console/screen"
	"github.com/troupehq/troupe/internal/flight"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/internal/test/screentest"
)

var update = flag.Bool("update", false, "write the golden files")

// shown is a screen on an emulated terminal.
type shown struct {
	*screentest.Terminal
	ended chan struct{}
}

// show runs a screen until the end of the test.
func show(t *testing.T, width, height int, o screen.Options) *shown {
	t.Helper()
	s := &shown{screentest.New(t, width, height), make(chan struct{})}
	o.Name = "troupe top"
	if o.Every == 0 {
		o.Every = 100 * time.Millisecond
	}
	sc := screen.New(s.Screen, o)
	harness.OK(t, sc.Open())
	ctx, cancel := context.WithCancel(t.Context())
	go func() { defer close(s.ended); sc.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-s.ended })
	return s
}

// visit goes to a page and waits for its rows.
func (s *shown) visit(page string) {
	s.Type(page + "\r")
	s.Await("top " + page + "  1/")
}

// gone waits until a text stands no longer on the screen.
func (s *shown) gone(t *testing.T, text string) {
	t.Helper()
	if !harness.Within(time.Minute, func() bool { return !strings.Contains(s.Text(), text) }) {
		t.Fatalf("still there: %q in\n%s", text, s.Text())
	}
}

// source looks at a Redis.
func source(rdb redis.UniversalClient) *screen.Redis {
	f := fleet.New(rdb, nil)
	f.Mask = mask.New(mask.Mask, nil, nil) // as commands have it
	return &screen.Redis{Fleet: f}
}

// ruby writes what the pages show, by Sidekiq itself.
func ruby(t *testing.T, url string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ruby", "testdata/seed.rb")
	cmd.Env = append(os.Environ(), "REDIS_URL="+url)
	if out, err := cmd.CombinedOutput(); err != nil {
		redistest.Missing(t, fmt.Errorf("ruby: %w: %s", err, out))
	}
}

const minute = time.Minute

// processes writes one of Ruby, one of troupe with a tree, and one that has died.
func processes(t *testing.T, rdb *redis.Client) {
	t.Helper()
	ctx, now := t.Context(), time.Now()
	do := func(args ...any) {
		if err := rdb.Do(ctx, args...).Err(); err != nil {
			t.Fatal(args, err)
		}
	}
	tell := func(id string, at time.Time, p *beat.Pulse) {
		do("SADD", "processes", id)
		do("HSET", id, "info", fmt.Sprintf(`{"hostname":"h","pid":1,"identity":%q,"concurrency":5,"queues":["default"],"tag":"shop"}`, id),
			"busy", 2, "beat", at.Unix(), "quiet", "false", "rss", 20480)
		if p == nil {
			return
		}
		p.At, p.Version, p.Tag = float64(at.Unix()), "0.1.0", "shop"
		if _, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			beat.WritePulse(ctx, pipe, id, p.JSON(), now)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	tell("ruby:1:aa", now.Add(time.Hour), nil) // ahead, so that they are not silent however long a test takes
	tell("web:7:bb", now.Add(time.Hour), &beat.Pulse{
		Phase: "running", Restarts: 2, Recent: 1, Failure: "default/processor-1: panic: boom", Capsules: []beat.PulseCapsule{{Name: "default", Busy: 2, Idle: 3}},
	})
	tell("web:9:cc", now.Add(-12*minute-30*time.Second), &beat.Pulse{Phase: "running", Capsules: []beat.PulseCapsule{{Name: "default", Busy: 4, Idle: 1}}})
	do("DEL", "web:9:cc")
	do("HSET", "web:7:bb:work", "p0", fmt.Sprintf(`{"queue":"default","run_at":%d,"payload":"{\"class\":\"Import\",\"args\":[\"日本語の名前\"],\"jid\":\"w1\"}"}`, now.Add(-3*time.Hour-30*minute).Unix()))
	tree := actors.Tree{
		{Path: "launcher", Role: "launcher", State: actors.StateRunning},
		{Path: "launcher/default", Role: "manager", Capsule: "default", State: actors.StateRunning},
		{Path: "launcher/default/fetcher", Role: "fetcher", Capsule: "default", State: actors.StateRunning},
	}
	for i := range 30 {
		n := actors.Node{Path: fmt.Sprintf("launcher/default/processor-%d", i), Role: "processor", Capsule: "default", State: actors.StateIdle}
		switch i {
		case 1:
			n.Restarts, n.LastFailure = 2, "panic: boom\nat line 7"
		case 4:
			n.State, n.Job = actors.StateBusy, &actors.JobRef{JID: "w1", Class: "Imp\nort", Started: now.Add(-3*time.Hour - 30*minute)}
		}
		tree = append(tree, n)
	}
	text := harness.Must(json.Marshal(append(tree, actors.Node{Path: "launcher/poller", Role: "poller", State: actors.StateRunning})))(t)
	do("SET", keys.Tree("web:7:bb"), text)
	do("DEL", keys.Flight("web:7:bb"))
	harness.OK(t, flight.Write(ctx, rdb, "web:7:bb", []flight.Record{
		{At: now.Add(-2*time.Hour - 30*minute), Kind: job.Retried.Kind(), JID: "r1", Class: "Pay", Queue: "default", Capsule: "default", Text: "502 Bad \x1b[31mGateway"},
		{At: now.Add(-90 * minute), Kind: flight.Crashed, Actor: "launcher/default/processor-1", Text: "panic: boom"},
	}))
}

// still makes what changes from run to run the same.
func still(text string) string {
	for _, r := range []struct{ match, with string }{
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d`, "2026-11-24T12:00:00"}, {`\.\d\d\dZ`, ".000Z"}, {`\d\d:\d\d:\d\dZ`, "12:00:00Z"},
		{`  \d\d:[\d:]*…`, "  12:…"}, {`3h30m\d+(\.\d+)?s`, "3h30m5.5s"}, {`(overdue by \d+h\d+m)\d+s`, "${1}5s"},
	} {
		text = regexp.MustCompile(r.match).ReplaceAllString(text, r.with)
	}
	return text
}
