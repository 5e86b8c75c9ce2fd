package main

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// A command that finds no job says why it could not: what it has searched, and that a queue
// is another system's.
func TestWhatIsNotFoundIsToldWithItsReason(t *testing.T) {
	rdb, url := redistest.New(t)
	ctx := t.Context()
	rdb.SAdd(ctx, "processes", "h:1:a")
	rdb.HSet(ctx, "h:1:a", "info", `{"identity":"h:1:a","hostname":"h","pid":1,"started_at":1,"concurrency":1,"queues":["php"],"labels":[],"weights":{}}`, "beat", time.Now().Unix(), "busy", 0, "quiet", "false")
	if _, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		beat.WritePulse(ctx, pipe, "h:1:a", (beat.Pulse{Phase: "running", Elsewhere: map[string]string{"php": "laravel"}}).JSON(), time.Now())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	rdb.SAdd(ctx, "queues", "mail")
	rdb.LPush(ctx, "queue:mail", `{"class":"A","args":[],"jid":"j1"}`)
	for _, c := range []struct {
		words []string
		code  int
		want  string
	}{
		{[]string{"jobs", "list", "queue:php"}, 4, `"php" is a queue of laravel in the process h:1:a`},
		{[]string{"jobs", "export", "queue:php"}, 4, `"php" is a queue of laravel in the process h:1:a`},
		{[]string{"jobs", "list", "queue:nobody"}, 0, "no such jobs in queue:nobody"},
		{[]string{"jobs", "list", "queue:mail", "--class", "B"}, 0, "no such jobs in queue:mail"},
		{[]string{"jobs", "show", "j2"}, 2, "Searched: "},
		{[]string{"jobs", "show", "j2"}, 2, "mail"},
		{[]string{"explain", "j2"}, 2, "Searched: "},
	} {
		got := call(ctx, append(c.words, "--redis", url)...)
		if got.code != c.code || !strings.Contains(got.out+got.err, c.want) {
			t.Errorf("%v: %v, expected %d with %q", c.words, got, c.code, c.want)
		}
	}
}
