package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// With the rule that the manual gives for a daemon, inflight and rescue work, and Redis
// refuses none of their calls.
func TestTheRuleOfTheManualIsEnoughForOperators(t *testing.T) {
	manual := harness.Must(os.ReadFile("../../docs/scaling.md"))(t)
	_, rule, _ := strings.Cut(string(manual), "ACL SETUSER troupe on >PASSWORD")
	rule, _, _ = strings.Cut(rule, "```")
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	ctx := t.Context()
	args := []any{"ACL", "SETUSER", "troupe", "on", ">PASSWORD"}
	for right := range strings.FieldsSeq(rule) {
		args = append(args, right)
	}
	const id = "dead:1:aa#default.1"
	for _, err := range []error{
		rdb.Do(ctx, args...).Err(),
		rdb.HSet(ctx, "troupe:places", id, `{"v":2,"queues":["low"]}`).Err(),
		rdb.HSet(ctx, "troupe:inprogress:"+id, "!", "1 7", "7.1", "low 1795224881000", "w:low", "low 1795224881000").Err(),
		rdb.LPush(ctx, "troupe:claim:"+id+":7.1", `{"class":"A","jid":"1","args":[]}`).Err(),
		rdb.LPush(ctx, "troupe:claim:"+id+":w:low", `{"class":"A","jid":"2","args":[]}`).Err(),
		rdb.LPush(ctx, "queue:low.suspects", "suspect").Err(),
		rdb.SAdd(ctx, "queues", "low.suspects").Err(),
		rdb.Do(ctx, "ACL", "LOG", "RESET").Err(),
	} {
		harness.OK(t, err)
	}
	url := "redis://troupe:PASSWORD@" + server.Addr + "/0"
	for args, want := range map[string]string{
		"inflight": "low\t1\t", "inflight --jobs": "1\tA\tlow\t", "rescue --dry-run": "would put back 2 jobs",
	} {
		if out := runCommandLine(t, args+" --redis "+url); !strings.Contains(out, want) {
			t.Errorf("%s says %q, want %q", args, out, want)
		}
	}
	harness.Equal(t, "rescue says", runCommandLine(t, "rescue --wait --redis "+url), id+": put back 2 jobs: low 2\nsuspects: put back 1 job: low 1\n")
	harness.Equal(t, "jobs in the queue", rdb.LLen(ctx, "queue:low").Val(), 3)
	refused := harness.Must(rdb.Do(ctx, "ACL", "LOG").Slice())(t)
	for _, e := range refused {
		if text := strings.ToLower(strings.Join(texts(e), " ")); !strings.Contains(text, "object client") && !strings.Contains(text, "object hello") {
			t.Errorf("redis refuses %s", text) // go-redis names itself where it may
		}
	}
}

func texts(entry any) (out []string) {
	switch entry := entry.(type) {
	case []any:
		for _, e := range entry {
			out = append(out, texts(e)...)
		}
	case map[any]any:
		for k, v := range entry {
			out = append(out, strings.Join(append(texts(k), texts(v)...), " "))
		}
	case string:
		out = append(out, entry)
	}
	return out
}

// runCommandLine runs one in this process and returns what it prints.
func runCommandLine(t *testing.T, args string) string {
	t.Helper()
	var out bytes.Buffer
	root := rootCommand()
	root.SetArgs(strings.Fields(args))
	root.SetOut(&out)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Errorf("%s: %v", args, err)
	}
	return out.String()
}
