package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

type charge struct {
	Account int    `arg:"0"`
	Name    string `arg:"1"`
	Extra   any    `arg:"2,optional"`
}

func (charge) Class() string { return "Billing::Charge" }

type marked struct {
	N int `arg:"0"`
}

func (marked) Class() string { return "Mark" }

func list(t *testing.T, rdb *redis.Client, queue string) []string {
	t.Helper()
	jobs := harness.Must(rdb.LRange(t.Context(), "queue:"+queue, 0, -1).Result())(t)
	return jobs
}

func parse(t *testing.T, raw string) *troupe.Payload {
	t.Helper()
	p, err := troupe.ParsePayload([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return p
}

func only(t *testing.T, rdb *redis.Client, queue string) string {
	t.Helper()
	jobs := list(t, rdb, queue)
	if len(jobs) != 1 {
		t.Fatalf("queue %s holds %d jobs, want 1: %v", queue, len(jobs), jobs)
	}
	return jobs[0]
}

func TestPushWritesWhatSidekiqWrites(t *testing.T) {
	rdb, _ := redistest.New(t)
	stamp := `\d+\.\d{1,7}`
	tests := []struct {
		name  string
		push  func(*client.Client) (string, error)
		queue string
		want  string
	}{
		{"defaults", func(c *client.Client) (string, error) {
			return c.Push(t.Context(), charge{Account: 1, Name: "é<&>\u2028😀"})
		}, "default", `{"retry":true,"queue":"default","class":"Billing::Charge","args":[1,"é<&>` + "\u2028" + `😀"],"jid":"JID","created_at":` + stamp + `,"enqueued_at":` + stamp + `}`},
		{"options stand between queue and class", func(c *client.Client) (string, error) {
			return c.Push(t.Context(), charge{1, "a", 2.0}, client.Retry(5), client.Tags("x", "y"), client.Queue("crit"),
				client.Dead(false), client.Backtrace(-1), client.RetryFor(90*time.Minute),
				client.RetryQueue("low"), client.Set("locale", "de"))
		}, "crit", `{"retry":5,"queue":"crit","tags":["x","y"],"dead":false,"backtrace":true,"retry_for":5400,"retry_queue":"low","locale":"de","class":"Billing::Charge","args":[1,"a",2.0],"jid":"JID","created_at":` + stamp + `,"enqueued_at":` + stamp + `}`},
		{"none of what a class has", func(c *client.Client) (string, error) {
			return c.PushClass(t.Context(), "Plain", nil, client.Queue("own"), client.Backtrace(0), client.Tags(), client.Dead(true), client.ExpireAt(time.Unix(1795000000, 5e8)))
		}, "own", `{"retry":true,"queue":"own","backtrace":false,"tags":[],"dead":true,"t_deadline":1795000000.5,"class":"Plain","args":[],"jid":"JID","created_at":` + stamp + `,"enqueued_at":` + stamp + `}`},
		{"class", func(c *client.Client) (string, error) {
			return c.PushClass(t.Context(), "Plain", nil, client.Never(), client.Queue("plain"), client.Backtrace(3))
		}, "plain", `{"retry":false,"queue":"plain","backtrace":3,"class":"Plain","args":[],"jid":"JID","created_at":` + stamp + `,"enqueued_at":` + stamp + `}`},
		{"class that needs escapes", func(c *client.Client) (string, error) {
			return c.PushClass(t.Context(), `É"\`+"\n", nil, client.Queue("odd"))
		}, "odd", `{"retry":true,"queue":"odd","class":"É\"\\\n","args":[],"jid":"JID","created_at":` + stamp + `,"enqueued_at":` + stamp + `}`},
		{"json in Ruby's form", func(c *client.Client) (string, error) {
			return c.PushJSON(t.Context(), "J", json.RawMessage(` [ 123456789012345678901234567890, 1.10, "\u00e9\u2028" ]`), client.Queue("json"), client.JID("mine-1"))
		}, "json", `{"retry":true,"queue":"json","class":"J","args":[123456789012345678901234567890,1.1,"é` + "\u2028" + `"],"jid":"JID","created_at":` + stamp + `,"enqueued_at":` + stamp + `}`},
		{"raw payload", func(c *client.Client) (string, error) {
			return c.PushPayload(t.Context(), parse(t, `{"class":"R","args":[1],"custom":{"a":1e3},"queue":"raw","enqueued_at":5}`))
		}, "raw", `{"retry":true,"queue":"raw","class":"R","args":[1],"custom":{"a":1000.0},"enqueued_at":` + stamp + `,"jid":"JID","created_at":` + stamp + `}`},
		{"explicit null retry stays", func(c *client.Client) (string, error) {
			return c.PushPayload(t.Context(), parse(t, `{"class":"","args":[],"retry":null,"queue":7,"jid":"x","created_at":3,"retry_for":10.9}`))
		}, "7", `{"retry":null,"queue":"7","class":"","args":[],"jid":"JID","created_at":3,"retry_for":10,"enqueued_at":` + stamp + `}`},
		{"a past time is now", func(c *client.Client) (string, error) {
			return c.Push(t.Context(), marked{1}, client.At(time.Now().Add(-time.Hour)), client.Queue("past"))
		}, "past", `{"retry":true,"queue":"past","class":"Mark","args":[1],"jid":"JID","created_at":` + stamp + `,"enqueued_at":` + stamp + `}`},
	}
	c := client.New(rdb)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			jid := harness.Must(tt.push(c))(t)
			got := only(t, rdb, tt.queue)
			pattern := regexp.QuoteMeta(tt.want)
			pattern = strings.ReplaceAll(pattern, regexp.QuoteMeta(stamp), stamp)
			pattern = strings.Replace(pattern, "JID", regexp.QuoteMeta(jid), 1)
			if !regexp.MustCompile("^" + pattern + "$").MatchString(got) {
				t.Errorf("got  %s\nwant %s", got, pattern)
			}
			if ok, _ := rdb.SIsMember(t.Context(), "queues", tt.queue).Result(); !ok {
				t.Errorf("queue %s is not in the set queues", tt.queue)
			}
		})
	}
}

func TestScheduledPush(t *testing.T) {
	rdb, _ := redistest.New(t)
	c := client.New(rdb)
	wakeUps := rdb.Subscribe(t.Context(), "troupe:wakeup")
	defer func() { _ = wakeUps.Close() }()
	harness.Must(wakeUps.Receive(t.Context()))(t)
	before := time.Now()
	jid := harness.Must(c.Push(t.Context(), marked{7}, client.In(time.Hour)))(t)
	got, err := rdb.ZRangeWithScores(t.Context(), "schedule", 0, -1).Result()
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	p := parse(t, got[0].Member.(string))
	if _, ok := p.Get("at"); ok || p.JID() != jid {
		t.Errorf("member %s", p.Bytes())
	}
	if _, ok := p.Get("enqueued_at"); ok {
		t.Errorf("a scheduled member has enqueued_at: %s", p.Bytes())
	}
	if at := got[0].Score - scores.Of(before); at < 3600 || at > 3610 {
		t.Errorf("scheduled in %v s, want 3600", at)
	}
	if n := rdb.Exists(t.Context(), "queues", "queue:default").Val(); n != 0 {
		t.Error("a scheduled push touched its queue")
	}
	if _, err := wakeUps.ReceiveMessage(t.Context()); err != nil {
		t.Error(err)
	}

	// The raw client puts even a past time through the schedule.
	harness.Must(c.PushPayload(t.Context(), parse(t, `{"class":"R","args":[],"at":60,"enqueued_at":1}`)))(t)
	got, _ = rdb.ZRangeWithScores(t.Context(), "schedule", 0, 0).Result()
	if got[0].Score != 60 || strings.Contains(got[0].Member.(string), `_at":1}`) {
		t.Errorf("got %v", got[0])
	}
}

func TestMillisecondsAndDefaults(t *testing.T) {
	rdb, _ := redistest.New(t)
	c := client.New(rdb, client.WithTimestamps(troupe.TimestampsMillis),
		client.WithDefaults(client.Queue("low"), client.Retry(2), client.Tags("app")))
	harness.Must(c.Push(t.Context(), marked{1}, client.Retry(9)))(t)
	got := only(t, rdb, "low")
	if !regexp.MustCompile(`^\{"retry":9,"queue":"low","tags":\["app"\],"class":"Mark","args":\[1\],"jid":"[0-9a-f]{24}","created_at":\d{13},"enqueued_at":\d{13}\}$`).MatchString(got) {
		t.Error(got)
	}
	c = client.New(rdb, client.WithDefaults(client.In(time.Second)))
	if _, err := c.Push(t.Context(), marked{1}); !fieldError(err, "WithDefaults") {
		t.Errorf("got %v", err)
	}
}

func fieldError(err error, field string) bool {
	var fe *client.FieldError
	return errors.As(err, &fe) && fe.Field == field
}

func TestBadPushesSendNothing(t *testing.T) {
	rdb, _ := redistest.New(t)
	c := client.New(rdb)
	push := func(opts ...client.Option) error {
		_, err := c.Push(t.Context(), marked{1}, opts...)
		return err
	}
	raw := func(text string) error {
		p, err := troupe.ParsePayload([]byte(text))
		harness.OK(t, err)
		_, err = c.PushPayload(t.Context(), p)
		return err
	}
	deep := func(n int) any {
		var v any = 1
		for range n {
			v = []any{v}
		}
		return v
	}
	edited := func(key, text string) error {
		p := parse(t, `{"class":"X","args":[1]}`)
		p.Set(key, json.RawMessage(text))
		_, err := c.PushPayload(t.Context(), p)
		return err
	}
	_, untyped := c.PushClass(t.Context(), "X", []any{1, func() {}})
	_, tooDeep := c.PushClass(t.Context(), "X", []any{deep(98), deep(99)})
	_, noClass := c.PushClass(t.Context(), "", nil)
	_, notArray := c.PushJSON(t.Context(), "X", json.RawMessage(`{"a":1}`))
	_, injected := c.PushJSON(t.Context(), "X", json.RawMessage(`[1],"retry":false`))
	_, nilArgs := c.Push(t.Context(), nil)
	_, bulkJID := client.PushBulk(t.Context(), c, func(func(marked) bool) {}, client.JID("x"))
	tests := []struct {
		name string
		err  error
		text string
	}{
		{"empty queue", push(client.Queue("")), `queue: got "", want a name`},
		{"negative retry", push(client.Retry(-1)), "retry: got -1"},
		{"retry_for too long", push(client.RetryFor(2e9 * time.Second)), "retry_for: got"},
		{"retry_for too short", push(client.RetryFor(time.Millisecond)), "retry_for: got 1ms"},
		{"jid", push(client.JID(`a"b`)), "jid: got"},
		{"own args", push(client.Set("args", 1)), `Set: got "args"`},
		{"tags", push(client.Set("tags", "x")), "tags: got a string, want an array"},
		{"queue no string", push(client.Set("queue", 1.5)), "queue: got 1.5"},
		{"bulk option", push(client.Spread(time.Minute)), "Spread"},
		{"two times", push(client.In(time.Hour), client.At(time.Now())), "At"},
		{"no class", noClass, "class"},
		{"function", untyped, "[1]"},
		{"too deep", tooDeep, "100 levels"},
		{"not UTF-8", func() error { _, err := c.PushClass(t.Context(), "X", []any{"a\xffb"}); return err }(), "UTF-8"},
		{"json object", notArray, "args: got an object, want an array"},
		{"json with more", injected, "invalid JSON"},
		{"nil", nilArgs, "args: got nil"},
		{"jid in bulk", bulkJID, "JID"},
		{"raw without class", raw(`{"args":[]}`), "class: got nothing, want a string"},
		{"raw class", raw(`{"class":5,"args":[]}`), "class: got a number"},
		{"raw without args", raw(`{"class":"X"}`), "args: got nothing"},
		{"raw args", raw(`{"class":"X","args":"secret"}`), "args: got a string, want an array"},
		{"raw at", raw(`{"class":"X","args":[],"at":"5"}`), `at: got "5"`},
		{"raw at null", raw(`{"class":"X","args":[],"at":null}`), "at: got null"},
		{"raw at negative", raw(`{"class":"X","args":[],"at":-5}`), "at: got -5"},
		{"raw at huge", raw(`{"class":"X","args":[],"at":1e999}`), `payload: set "at": encode JSON: number 1e999 at byte 0 is too large`},
		{"number beyond doubles", raw(`{"class":"X","args":[1, -1e999]}`), `payload: set "args": encode JSON: number -1e999 at byte 4 is too large`},
		{"half of a surrogate pair", raw(`{"class":"X","args":["a", "b\ud83d"]}`), `payload: set "args": encode JSON: half of a surrogate pair, \ud83d at byte 8`},
		{"raw queue null", raw(`{"class":"X","args":[],"queue":null}`), "queue: got null"},
		{"raw queue object", raw(`{"class":"X","args":[],"queue":{}}`), "queue: got an object"},
		{"raw tags", raw(`{"class":"X","args":[],"tags":1}`), "tags: got a number"},
		{"raw retry_for", raw(`{"class":"X","args":[],"retry_for":1000000001}`), "retry_for: got 1000000001"},
		{"raw not UTF-8", raw("{\"class\":\"X\",\"args\":[\"s\xffecret\"]}"), "args: got bytes that are not UTF-8"},
		{"edited to no JSON", edited("args", `[1`), "invalid payload"},
		{"edited by injection", edited("args", `[1],"x":`), "invalid payload"},
	}
	for _, tt := range tests {
		switch {
		case tt.err == nil || !strings.Contains(tt.err.Error(), tt.text):
			t.Errorf("%s: got error %v, want %q", tt.name, tt.err, tt.text)
		case strings.Contains(tt.err.Error(), "secret"):
			t.Errorf("%s: the error shows an argument: %v", tt.name, tt.err)
		}
	}
	harness.Equal(t, "keys were written", rdb.DBSize(t.Context()).Val(), 0)
	if err := raw(`{"class":"X","args":[],"tags":null,"retry_for":false}`); err != nil {
		t.Errorf("falsy fields: %v", err)
	}
	if _, err := c.PushClass(t.Context(), "X", []any{deep(98)}); err != nil {
		t.Errorf("98 levels below args: %v", err)
	}
}

func TestMiddleware(t *testing.T) {
	rdb, _ := redistest.New(t)
	var order []string
	outer := func(next client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			order = append(order, "outer")
			switch p.Class() {
			case "Silent":
				return nil
			case "Stopped":
				return fmt.Errorf("duplicate: %w", client.ErrStopped)
			case "Fails":
				return errors.New("no tenant")
			case "Panics":
				panic("boom")
			case "NotUTF8":
				p.Set("args", json.RawMessage("[\"\xff\"]"))
			case "Repaired":
				p.Set("queue", json.RawMessage(`"fixed"`))
			case "Breaks":
				p.Delete("args")
			case "Later":
				p.Set("at", json.RawMessage("4102444800.5"))
			case "Lost":
				ctx = context.Background()
			}
			return next(ctx, p)
		}
	}
	inner := func(next client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			order = append(order, "inner")
			_, at := p.Get("at")
			_, enqueued := p.Get("enqueued_at")
			if _, seen := p.Get("seen"); !seen {
				p.SetString("seen", fmt.Sprint(at, enqueued, p.JID() != "", p.Queue()))
			}
			return next(ctx, p)
		}
	}
	c := client.New(rdb, client.WithMiddleware(outer, inner))
	do := func(class string, opts ...client.Option) (string, error) {
		return c.PushClass(t.Context(), class, nil, opts...)
	}
	for _, class := range []string{"Silent", "Stopped"} {
		if jid, err := do(class); jid != "" || !errors.Is(err, client.ErrStopped) || errors.As(err, new(*client.MiddlewareError)) {
			t.Errorf("%s: %q, %v", class, jid, err)
		}
	}
	for class, text := range map[string]string{"Fails": "no tenant", "Panics": "boom", "NotUTF8": "UTF-8", "Breaks": "args: got nothing", "Lost": "context"} {
		var me *client.MiddlewareError
		if jid, err := do(class); jid != "" || !errors.As(err, &me) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %q, %v", class, jid, err)
		}
	}
	if n := rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Fatalf("%d keys were written", n)
	}
	order = nil
	harness.Must(do("Repaired", client.Queue("a")))(t)
	if p := parse(t, only(t, rdb, "fixed")); p.Queue() != "fixed" || strings.Join(order, " ") != "outer inner" {
		t.Errorf("%s after %v", p.Bytes(), order)
	} else if seen, _ := p.String("seen"); seen != "false false truefixed" {
		t.Errorf("inner saw %s", seen)
	}
	jid := harness.Must(do("Later"))(t)
	members, _ := rdb.ZRangeWithScores(t.Context(), "schedule", 0, -1).Result()
	if len(members) != 1 || members[0].Score != 4102444800.5 || parse(t, members[0].Member.(string)).JID() != jid {
		t.Errorf("schedule: %v", members)
	}
	jids, err := c.PushBulkClass(t.Context(), "Silent", slices.Values([][]any{nil, nil}))
	if !errors.Is(err, client.ErrStopped) || len(jids) != 2 || jids[0] != "" {
		t.Errorf("stopped bulk: %v, %v", jids, err)
	}
	if jid, err := do("In", client.In(time.Hour)); err != nil || jid == "" {
		t.Error(err)
	}
	members, _ = rdb.ZRangeWithScores(t.Context(), "schedule", 0, 0).Result()
	if p := parse(t, members[0].Member.(string)); !strings.Contains(string(p.Bytes()), `"seen":"true false truedefault"`) || strings.Contains(string(p.Bytes()), `"at":`) {
		t.Errorf("scheduled: %s", p.Bytes())
	}
}

func TestPrepareKeepsTheBytes(t *testing.T) {
	rdb, _ := redistest.New(t)
	c := client.New(rdb)
	now := time.Unix(1795225000, 0)
	tests := []struct{ in, want string }{
		{`{"retry":3,"queue":"low","class":"A","args":[1e3,123456789012345678901],"jid":"j","created_at":1.50,"enqueued_at":2.5,"x": {"a" : 1}}`,
			`{"retry":3,"queue":"low","class":"A","args":[1e3,123456789012345678901],"jid":"j","created_at":1.50,"enqueued_at":1795225000.0,"x":{"a" : 1}}`},
		{`{"class":"A","queue":"q","args":["` + "\xff" + `"],"retry":false,"at":9,"jid":"j","created_at":1}`,
			`{"class":"A","queue":"q","args":["` + "\xff" + `"],"retry":false,"jid":"j","created_at":1,"enqueued_at":1795225000.0}`},
		{`{"class":"A","args":[],"jid":"j"}`,
			`{"retry":true,"queue":"default","class":"A","args":[],"jid":"j","created_at":1795225000.0,"enqueued_at":1795225000.0}`},
	}
	for _, tt := range tests {
		p, err := c.Prepare(t.Context(), parse(t, tt.in), now)
		if err != nil || string(p.Bytes()) != tt.want {
			t.Errorf("Prepare(%s)\n got %s, %v\nwant %s", tt.in, p.Bytes(), err, tt.want)
		}
	}
	edits := client.New(rdb, client.WithMiddleware(func(next client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			p.Set("new", json.RawMessage(`[1e3, {"a":1,"a":-0}]`))
			p.Set("x", json.RawMessage(`1.50`))
			return next(ctx, p)
		}
	}))
	p, err := edits.Prepare(t.Context(), parse(t, tests[0].in), now)
	if want := strings.Replace(tests[0].want, `{"a" : 1}}`, `1.5,"new":[1000.0,{"a":0}]}`, 1); err != nil || string(p.Bytes()) != want {
		t.Errorf("edited by middleware: %s, %v\nwant %s", p.Bytes(), err, want)
	}
	if _, err := c.Prepare(t.Context(), parse(t, `{"class":"A","args":[],"queue":""}`), now); !fieldError(err, "queue") {
		t.Errorf("got %v", err)
	}
}

func TestUnwritableKeysAreReported(t *testing.T) {
	rdb, _ := redistest.New(t)
	c := client.New(rdb)
	rdb.Set(t.Context(), "queue:odd", "x", 0)
	if _, err := c.Push(t.Context(), marked{1}, client.Queue("odd")); err == nil || !strings.Contains(err.Error(), "queue odd: WRONGTYPE") {
		t.Errorf("got %v", err)
	}
	_ = rdb.Close()
	if _, err := c.Push(t.Context(), marked{1}); err == nil {
		t.Error("no error from a closed client")
	}
}

func TestClientDoesNotLinkTheDaemon(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		redistest.Missing(t, fmt.Errorf("go list: %w", err))
	}
	for line := range strings.Lines(string(out)) {
		for _, banned := range []string{"protoactor", "troupe/actors", "troupe/sched", "troupe/fetch", "troupe/supervisor", "prometheus", "zerolog"} {
			if strings.Contains(line, banned) {
				t.Errorf("client links %s", strings.TrimSpace(line))
			}
		}
	}
}

func TestBulk(t *testing.T) {
	rdb, _ := redistest.New(t)
	c := client.New(rdb)
	jobs := func(n int) func(func(marked) bool) {
		return func(yield func(marked) bool) {
			for i := range n {
				if !yield(marked{i}) {
					return
				}
			}
		}
	}
	rdb.ConfigResetStat(t.Context())
	jids, err := client.PushBulk(t.Context(), c, jobs(2500), client.Queue("bulk"))
	if err != nil || len(jids) != 2500 {
		t.Fatal(len(jids), err)
	}
	if calls := commandCalls(t, rdb, "lpush"); calls < 3 {
		t.Errorf("%d LPUSH for 2,500 jobs, want 3", calls)
	}
	got := list(t, rdb, "bulk")
	created := map[string]bool{}
	for i, jid := range jids {
		p := parse(t, got[len(got)-1-i]) // the end is popped first
		if p.JID() != jid || string(p.Args()) != "["+strconv.Itoa(i)+"]" {
			t.Fatalf("job %d is %s", i, p.Bytes())
		}
		at, _ := p.Get("created_at")
		created[string(at)] = true
	}
	harness.Equal(t, "different created_at", len(created), 1)

	start := time.Now()
	var each []client.Item
	for args := range jobs(250) {
		item := client.Job(args, client.Queue("each"))
		if i := len(each); i%2 == 1 {
			item = client.Job(args, client.Queue("each"), client.At(start.Add(time.Duration(i)*time.Hour)))
		}
		each = append(each, item)
	}
	jids, err = c.PushMany(t.Context(), each...)
	if err != nil || len(jids) != 250 {
		t.Fatal(len(jids), err)
	}
	harness.Equal(t, "jobs at once", len(list(t, rdb, "each")), 125)
	members, _ := rdb.ZRangeWithScores(t.Context(), "schedule", 0, -1).Result()
	if len(members) != 125 || members[0].Score != scores.Of(start.Add(time.Hour)) {
		t.Errorf("%d scheduled", len(members))
	}
	rdb.Del(t.Context(), "schedule")

	harness.Must(client.PushBulk(t.Context(), c, jobs(300), client.Spread(time.Minute), client.BatchSize(7)))(t)
	members, _ = rdb.ZRangeWithScores(t.Context(), "schedule", 0, -1).Result()
	if first, last := members[0].Score-scores.Of(start), members[len(members)-1].Score-scores.Of(start); len(members) != 300 || first < 0 || last > 70 || last-first < 30 {
		t.Errorf("%d jobs spread over %v to %v", len(members), first, last)
	}
	rdb.FlushDB(t.Context())
	if jids, err := client.PushBulk(t.Context(), c, jobs(0)); err != nil || len(jids) != 0 || rdb.DBSize(t.Context()).Val() != 0 {
		t.Error("an empty bulk wrote something", jids, err)
	}
	seq := func(yield func([]any) bool) { _ = yield([]any{1}) && yield([]any{2}) && yield([]any{make(chan int)}) }
	jids, err = c.PushBulkClass(t.Context(), "X", seq, client.BatchSize(2))
	if len(jids) != 2 || err == nil || !strings.Contains(err.Error(), "after 2 jobs") {
		t.Errorf("got %v, %v", jids, err)
	}
}

func commandCalls(t *testing.T, rdb *redis.Client, command string) int {
	t.Helper()
	info := harness.Must(rdb.Info(t.Context(), "commandstats").Result())(t)
	m := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+)`).FindStringSubmatch(info)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

func TestBulkGroupsByQueue(t *testing.T) {
	rdb, _ := redistest.New(t)
	odd := func(next client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			if n := string(p.Args()); n == "[1]" || n == "[3]" {
				p.SetString("queue", "odd")
			}
			return next(ctx, p)
		}
	}
	c := client.New(rdb, client.WithMiddleware(odd))
	seq := func(yield func([]any) bool) {
		for i := range 5 {
			if !yield([]any{i}) {
				return
			}
		}
	}
	harness.Must(c.PushBulkClass(t.Context(), "X", seq))(t)
	args := func(queue string) (out string) {
		for _, raw := range list(t, rdb, queue) {
			out += string(parse(t, raw).Args())
		}
		return out
	}
	if a, b := args("default"), args("odd"); a != "[4][2][0]" || b != "[3][1]" {
		t.Errorf("default %s, odd %s", a, b)
	}
}
