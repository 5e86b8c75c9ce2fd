package client_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// urgent has defaults for all that a push writes.
type urgent struct {
	N int `arg:"0"`
}

func (urgent) Class() string { return "Urgent" }

func (urgent) Defaults() troupe.Options {
	return troupe.Options{
		Queue: "critical", Retries: troupe.Times(5), RetryQueue: "low", Dead: new(false), Backtrace: 3, Tags: []string{"é", "money"},
		Timeout: time.Minute, RetryIn: func(int, error, *troupe.Payload) troupe.Delay { return 1 }, // these are the daemon's
	}
}

// fragile is never retried, and its methods are those of a pointer.
type fragile struct {
	N int `arg:"0"`
}

func (*fragile) Class() string            { return "Fragile" }
func (*fragile) Defaults() troupe.Options { return troupe.Options{Retries: troupe.Never()} }

// mixed is named by its value and has its defaults from a pointer.
type mixed struct {
	N int `arg:"0"`
}

func (mixed) Class() string { return "Mixed" }
func (*mixed) Defaults() troupe.Options {
	return troupe.Options{Queue: "mixed", Retries: troupe.Times(0)}
}

// broken returns what there is no sense in.
type broken struct{}

var brokenOptions func() troupe.Options

func (broken) Class() string            { return "Broken" }
func (broken) Defaults() troupe.Options { return brokenOptions() }

// fieldsOf is a job without what differs in each push.
func fieldsOf(raw string) string {
	return regexp.MustCompile(`,"jid":.*`).ReplaceAllString(raw, "}")
}

const urgentFields = `"retry":5,"queue":"critical","retry_queue":"low","dead":false,"backtrace":3,"tags":["é","money"]`

func TestATypesDefaultsAreWritten(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	c := client.New(rdb, client.WithDefaults(client.Queue("low"), client.Retry(9), client.Set("tenant", "acme")))
	for want, push := range map[string]func() (string, error){
		`{` + strings.Replace(urgentFields, `,"retry_queue"`, `,"tenant":"acme","retry_queue"`, 1) + `,"class":"Urgent","args":[1]}`: func() (string, error) {
			return c.Push(ctx, urgent{1})
		},
		`{` + strings.Replace(urgentFields, `,"retry_queue"`, `,"tenant":"acme","retry_queue"`, 1) + `,"class":"Urgent","args":[2]}`: func() (string, error) {
			return c.Push(ctx, &urgent{2})
		},
		`{"retry":1,"queue":"call","tenant":"acme","retry_queue":"low","dead":true,"backtrace":false,"tags":[],"class":"Urgent","args":[3]}`: func() (string, error) {
			return c.Push(ctx, urgent{3}, client.Retry(1), client.Queue("call"), client.Set("backtrace", false),
				client.Dead(true), client.Tags())
		},
		`{"retry":false,"queue":"low","tenant":"acme","class":"Fragile","args":[1]}`: func() (string, error) {
			return c.Push(ctx, &fragile{1})
		},
		`{"retry":0,"queue":"mixed","tenant":"acme","class":"Mixed","args":[1]}`: func() (string, error) { return c.Push(ctx, mixed{1}) },
		`{"retry":9,"queue":"low","tenant":"acme","class":"Mark","args":[1]}`:    func() (string, error) { return c.Push(ctx, marked{1}) },
		`{"retry":9,"queue":"low","tenant":"acme","class":"Urgent","args":[]}`: func() (string, error) {
			return c.PushClass(ctx, "Urgent", nil) // no type
		},
	} {
		for range 2 { // the second finds the defaults of the first
			harness.Must(push())(t)
			var got []string
			for _, queue := range rdb.SMembers(ctx, "queues").Val() {
				got = append(got, list(t, rdb, queue)...)
			}
			if len(got) != 1 || fieldsOf(got[0]) != want {
				t.Errorf("got  %q\nwant %s", got, want)
			}
			rdb.FlushDB(ctx)
		}
	}
	harness.Must(client.New(rdb).Push(ctx, marked{1}))(t)
	if got, want := fieldsOf(only(t, rdb, "default")), `{"retry":true,"queue":"default","class":"Mark","args":[1]}`; got != want {
		t.Errorf("without any defaults\n got %s\nwant %s", got, want)
	}
}

// Sidekiq 8 does not look at the number of retries of a job that has a retry_for.
func TestANumberOfRetriesReplacesTheRetryForOfTheDefaults(t *testing.T) {
	q := testkit.Fake(t, client.WithDefaults(client.RetryFor(time.Hour)))
	for _, tt := range []struct {
		args troupe.Args
		opts []client.Option
		want string
	}{
		{marked{1}, nil, `true 3600`},
		{marked{1}, []client.Option{client.Retry(3)}, `3 `},
		{marked{1}, []client.Option{client.Never()}, `false `},
		{marked{1}, []client.Option{client.Retry(3), client.RetryFor(time.Minute)}, `3 60`},
		{marked{1}, []client.Option{client.Set("retry_for", 60), client.Retry(3)}, `3 60`},
		{marked{1}, []client.Option{client.Queue("x")}, `true 3600`},
		{urgent{1}, nil, `5 `},
		{urgent{1}, []client.Option{client.RetryFor(time.Minute)}, `5 60`},
	} {
		q.Clear()
		harness.Must(q.Client.Push(t.Context(), tt.args, tt.opts...))(t)
		retry, _ := q.All()[0].Get("retry")
		span, _ := q.All()[0].Get("retry_for")
		if got := fmt.Sprintf("%s %s", retry, span); got != tt.want {
			t.Errorf("%T: got %q, want %q", tt.args, got, tt.want)
		}
	}
}

func TestEveryWayToPushHasTheTypesDefaults(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	c := client.New(rdb)
	check := func(what, raw, want string) {
		t.Helper()
		if got := fieldsOf(raw); got != want {
			t.Errorf("%s\n got %s\nwant %s", what, got, want)
		}
	}
	job := func(n int) string { return fmt.Sprintf(`{%s,"class":"Urgent","args":[%d]}`, urgentFields, n) }

	harness.Must(c.Push(ctx, urgent{1}, client.In(time.Hour)))(t)
	check("scheduled", rdb.ZRange(ctx, "schedule", 0, -1).Val()[0], job(1))

	harness.Must(client.PushBulk(ctx, c, slices.Values([]urgent{{1}, {2}, {3}}), client.BatchSize(2)))(t)
	for i, raw := range list(t, rdb, "critical") {
		check("bulk", raw, job(3-i))
	}
	harness.Must(client.PushBulk(ctx, c, slices.Values([]urgent{{4}}), client.Queue("bulk")))(t)
	check("bulk with an option", only(t, rdb, "bulk"), strings.Replace(job(4), "critical", "bulk", 1))

	rdb.FlushDB(ctx)
	jids, err := client.PushBulk(ctx, c, slices.Values([]troupe.Args{urgent{1}, marked{2}, &mixed{3}, urgent{4}}))
	if err != nil || len(jids) != 4 {
		t.Fatal(jids, err)
	}
	if got := list(t, rdb, "critical"); len(got) != 2 {
		t.Errorf("queue critical: %q", got)
	}
	check("of another type", only(t, rdb, "default"), `{"retry":true,"queue":"default","class":"Mark","args":[2]}`)
	check("of a third type", only(t, rdb, "mixed"), `{"retry":0,"queue":"mixed","class":"Mixed","args":[3]}`)

	other, _ := redistest.New(t)
	s, err := client.NewSharded([]client.Shard{
		{Name: "a", Redis: rdb, Queues: []string{"default"}}, {Name: "b", Redis: other, Queues: []string{"critical"}},
	})
	harness.OK(t, err)
	harness.Must(s.Push(ctx, urgent{5}))(t)
	check("sharded", only(t, other, "critical"), job(5))
	if _, err := s.Push(ctx, mixed{6}); err == nil || !strings.Contains(err.Error(), `got "mixed", want one of the shards`) {
		t.Errorf("a queue that no shard has: %v", err)
	}
}

func TestABufferedPushHasTheTypesDefaults(t *testing.T) {
	server := testkit.NewServer(t)
	opts := server.Options()
	opts.MaxRetries, opts.DialTimeout = -1, time.Second
	rdb := redis.NewClient(opts)
	defer func() { _ = rdb.Close() }()
	c := client.New(rdb, client.WithBuffer(10))
	server.Kill()
	harness.Must(c.Push(t.Context(), urgent{1}))(t)
	server.Restart()
	harness.OK(t, c.Close(t.Context()))
	if got, want := fieldsOf(only(t, server.Client, "critical")), `{`+urgentFields+`,"class":"Urgent","args":[1]}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDefaultsThatMakeNoSenseFailThePush(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	for want, options := range map[string]func() troupe.Options{
		`Retries is Times(-1), expected a number from 0, or Never`: func() troupe.Options { return troupe.Options{Retries: troupe.Times(-1)} },
		`Timeout is -1s, expected a time above 0`:                  func() troupe.Options { return troupe.Timeout(-time.Second) },
		`Queue is "\xff", expected a name in UTF-8`:                func() troupe.Options { return troupe.Options{Queue: "\xff"} },
		`RetryQueue is "\xff", expected a name in UTF-8`:           func() troupe.Options { return troupe.Options{RetryQueue: "\xff"} },
		`Tags[1] is "\xff", expected text in UTF-8`:                func() troupe.Options { return troupe.Options{Tags: []string{"a", "\xff"}} },
		`recovery: delay -1s, expected more than 0`:                func() troupe.Options { return troupe.Options{Recovery: troupe.Recovery{Delay: -time.Second}} },
		`panic: no settings`:                                       func() troupe.Options { panic("no settings") },
	} {
		brokenOptions = options
		c := client.New(rdb)
		for range 2 {
			_, err := c.Push(ctx, broken{})
			if text := "push Broken: Defaults of client_test.broken: " + want; err == nil || err.Error() != text {
				t.Errorf("got  %v\nwant %s", err, text)
			}
			if _, panicked := errors.AsType[*troupe.PanicError](err); panicked != strings.HasPrefix(want, "panic") {
				t.Errorf("%T", err)
			}
		}
		jids, err := client.PushBulk(ctx, c, slices.Values([]troupe.Args{marked{1}, broken{}}), client.BatchSize(1))
		if err == nil || !strings.HasSuffix(err.Error(), "after 1 jobs: Defaults of client_test.broken: "+want) || len(jids) != 1 {
			t.Errorf("bulk: %v, %q", err, jids)
		}
		if _, err := c.Push(ctx, marked{2}); err != nil {
			t.Errorf("another type: %v", err)
		}
		if n := rdb.LLen(ctx, "queue:default").Val(); n != 2 || rdb.SCard(ctx, "queues").Val() != 1 {
			t.Errorf("%d jobs in default", n)
		}
		rdb.FlushDB(ctx)
	}
}

func TestRubyReadsTheDefaultsOfAType(t *testing.T) {
	rdb, url := redistest.New(t)
	harness.Must(client.New(rdb).Push(t.Context(), urgent{7}))(t)
	lines := ruby(t, url, `
j = Sidekiq::Queue.new("critical").first
puts j.klass, j.queue, j["retry"].inspect, j["retry_queue"], j["dead"].inspect, j["backtrace"], j.tags.inspect
`)
	if want := []string{"Urgent", "critical", "5", "low", "false", "3", `["é", "money"]`}; !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q", lines, want)
	}
}
