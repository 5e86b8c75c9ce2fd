package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
)

func loadText(t *testing.T, flags Flags, text string) (*Settings, error) {
	t.Helper()
	flags.File = filepath.Join(t.TempDir(), "troupe.yml")
	harness.OK(t, os.WriteFile(flags.File, []byte(text), 0o600))
	return Load(flags, func(string) string { return "" })
}

const shardsText = `
handlers: {NoOp: {builtin: noop}}
timeout: 7
shards:
  orders: {redis: "redis://u:hunter2@10.0.0.1/0", concurrency: 7, queues: [[critical, 3], orders]}
  mail:
    redis: "redis://10.0.0.2/0"
    capsules: {mail: {concurrency: 50, queues: [mail]}, digest: {queues: [digest]}}
`

func TestShardsAreTreesOfTheirOwn(t *testing.T) {
	s := harness.Must(loadText(t, Flags{}, shardsText))(t)
	if len(s.Trees) != 2 || s.Trees[0].Shard != "orders" || s.Trees[1].Shard != "mail" {
		t.Fatalf("%+v", s.Trees)
	}
	orders, mail := s.Trees[0].Settings, s.Trees[1].Settings
	if orders.RedisURL != "redis://u:hunter2@10.0.0.1/0" || len(orders.Capsules) != 1 || orders.Capsules[0].Concurrency != 7 ||
		orders.Capsules[0].Queues.List().Mode() != "weighted" || orders.Timeout != mail.Timeout || orders.Timeout == 0 {
		t.Errorf("orders: %+v", orders)
	}
	if mail.RedisURL != "redis://10.0.0.2/0" || len(mail.Capsules) != 2 || mail.Capsules[0].Name != "mail" {
		t.Errorf("mail: %+v", mail)
	}
	var out strings.Builder
	harness.OK(t, s.Summary(&out))
	for _, want := range []string{"shard orders  redis://***@10.0.0.1/0", "shard mail", "critical 3", "digest"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "hunter2") {
		t.Error("the summary shows a password")
	}
}

func TestFaultsOfShards(t *testing.T) {
	for name, tt := range map[string]struct {
		flags Flags
		text  string
		want  string
	}{
		"no redis":         {text: "shards: {a: {queues: [a]}}", want: "shards.a.redis is missing, expected the shard's Redis"},
		"two of a name":    {text: "shards: [{name: a, redis: \"redis://h/0\"}, {name: a, redis: \"redis://h/1\", queues: [b]}]", want: "a name that no other shard has"},
		"a queue twice":    {text: "shards: {a: {redis: \"redis://h/0\", queues: [q]}, b: {redis: \"redis://h/1\", queues: [q]}}", want: `"q", a queue of shard a, expected each queue on one shard`},
		"queues beside":    {text: "queues: [x]\nshards: {a: {redis: \"redis://h/0\"}}", want: "queues is given beside shards"},
		"-q beside":        {flags: Flags{Queues: fetch.Strict{"x"}}, text: "shards: {a: {redis: \"redis://h/0\"}}", want: "-q is given beside shards"},
		"--redis beside":   {flags: Flags{Redis: "redis://h/0"}, text: "shards: {a: {redis: \"redis://h/0\"}}", want: "--redis is given beside shards"},
		"an unknown key":   {text: "shards: {a: {redis: \"redis://h/0\", quueues: [x]}}", want: "shards.a.quueues is no known key, expected queues"},
		"a key of the top": {text: "shards: {a: {redis: \"redis://h/0\", timeout: 3}}", want: "shards.a.timeout is no known key"},
		"no map":           {text: "shards: {a: \"redis://h/0\"}", want: "a map with redis, and queues or capsules"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadText(t, tt.flags, "handlers: {NoOp: {builtin: noop}}\n"+tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
