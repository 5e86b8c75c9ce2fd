package e2e

import (
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// rubyRuns waits for n runs in a real Sidekiq.
func rubyRuns(t testing.TB, rdb *redis.Client, n int) []rubyRun {
	t.Helper()
	for ran, seen := 0, -1; ran < n; seen = ran { // as long as there are more and more
		testkit.Await(t, fmt.Sprintf("%d runs in Ruby, after %d", n, max(seen, 0)), func() bool {
			ran = int(rdb.LLen(t.Context(), "e2e:ruby").Val())
			return ran > max(seen, 0) || ran >= n
		})
	}
	texts := rdb.LRange(t.Context(), "e2e:ruby", 0, -1).Val()
	runs := make([]rubyRun, len(texts))
	for i, text := range texts {
		harness.OK(t, json.Unmarshal([]byte(text), &runs[i]))
	}
	return runs
}

var jidForm = regexp.MustCompile(`^[0-9a-f]{24}$`)

func TestRubyRunsWhatGoPushesWithEqualArgs(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	sidekiq(t, url, "-c", "1")
	c := client.New(rdb)
	want := map[string]string{} // jid -> args as Ruby writes them
	for _, args := range []string{
		`[]`, `[1,"two",{"three":3.5},null]`, `[123456789012345678901234567890]`, `[1.0,0.25,12345.678]`,
		`["😀👨‍👩","<&>` + "\u2028" + `/","\u0000\u001f\t\n\"\\"]`, `[{"b":1,"a":[true,false,{}]}]`,
	} {
		jid := harness.Must(c.PushJSON(t.Context(), "Record", json.RawMessage(args)))(t)
		want[jid] = args
	}
	bulk := harness.Must(c.PushBulkClass(t.Context(), "Record", numbered(1000)))(t)
	for i, jid := range bulk {
		want[jid] = fmt.Sprintf("[%d]", i)
	}
	at := time.Now()
	late := harness.Must(c.PushClass(t.Context(), "Record", []any{"late"}, client.In(time.Second)))(t)
	want[late] = `["late"]`

	next := 0
	for _, run := range rubyRuns(t, rdb, len(want)) {
		if !jidForm.MatchString(run.JID) {
			t.Errorf("jid %q", run.JID)
		}
		if args, ok := want[run.JID]; !ok || string(run.Args) != args {
			t.Errorf("pushed %s, Ruby ran it with %s", args, run.Args)
		}
		delete(want, run.JID)
		if next < len(bulk) && run.JID == bulk[next] {
			next++
		}
	}
	if len(want) != 0 || next != len(bulk) {
		t.Errorf("not run: %v; %d of the bulk ran in order", want, next)
	}
	if early := time.Since(at); early < time.Second {
		t.Errorf("the scheduled job ran after %s", early)
	}
	clean(t, rdb)
}

func numbered(n int) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		for i := range n {
			if !yield([]any{i}) {
				return
			}
		}
	}
}

func TestRubyRunsWhatTheCommandPushes(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	sidekiq(t, url, "-c", "2", "-q", "default", "-q", "other")
	want := map[string]string{}
	for _, push := range []struct {
		flags []string
		args  string
	}{
		{[]string{"Record", "bob", "5", `"5"`, `{"a":[1,2]}`}, `["bob",5,"5",{"a":[1,2]}]`},
		{[]string{"Record", "--args", `[123456789012345678901234567890,1.0,null]`}, `[123456789012345678901234567890,1.0,null]`},
		{[]string{"Record", "--queue", "other", "--in", "1s", "😀"}, `["😀"]`},
		{[]string{"Record", "--count", "3", "--retry", "false", "--", "-5"}, `[-5]`},
	} {
		p := procs.Troupe(t, []string{"REDIS_URL=" + url}, append([]string{"push"}, push.flags...)...)
		if code := p.Exit(soon); code != 0 {
			t.Fatalf("troupe push %v: exit code %d: %s", push.flags, code, p.Stderr())
		}
		for jid := range strings.FieldsSeq(p.Stdout()) {
			want[jid] = push.args
		}
	}
	if len(want) != 6 {
		t.Fatalf("%d jids printed, want 6", len(want))
	}
	for _, run := range rubyRuns(t, rdb, len(want)) {
		if args := want[run.JID]; string(run.Args) != args {
			t.Errorf("pushed %s, Ruby ran it with %s", args, run.Args)
		}
		delete(want, run.JID)
	}
	if len(want) != 0 {
		t.Errorf("not run: %v", want)
	}
	clean(t, rdb)
}
