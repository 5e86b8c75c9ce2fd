package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

func TestReload(t *testing.T) {
	const base = "concurrency: 3\nqueues: [a, b]\nhandlers:\n  NoOp: {builtin: noop}\n"
	load := func(text string) *Settings {
		t.Helper()
		path := filepath.Join(t.TempDir(), "troupe.yml")
		harness.OK(t, os.WriteFile(path, []byte(text), 0o600))
		s := harness.Must(Load(Flags{File: path}, func(string) string { return "" }))(t)
		return s
	}
	for _, c := range []struct{ next, want, ignored, fault string }{
		{next: base, want: "default 3 [a b]"},
		{next: "# a line more\n" + base, want: "default 3 [a b]"},
		{next: "concurrency: 9\nqueues: [[a, 2], [c, 1]]\nhandlers:\n  NoOp: {builtin: noop}\n", want: "default 9 [a c]"},
		{next: "handlers:\n  NoOp: {builtin: noop}\n", want: "default 10 [default]"},
		{next: base + "timeout: 9\nfetch: basic\n", want: "default 3 [a b]", ignored: "stop timeout 9s; default concurrency 3 strict: a, b basic fetch"},
		{next: base + "capsules:\n  other: {queues: [x]}\n", fault: `the capsule "other" is new: that takes a restart`},
	} {
		capsules, _, ignored, err := load(base).Reload(load(c.next), "")
		got := ""
		for _, k := range capsules {
			var names []string
			for _, q := range k.Queues.List() {
				names = append(names, q.Queue)
			}
			got += fmt.Sprint(k.Name, " ", k.Concurrency, " ", names)
		}
		if got != c.want || err != nil != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %s, %v, expected %s %s", c.next, got, err, c.want, c.fault)
		}
		if !strings.HasPrefix(strings.Join(ignored, "; "), c.ignored) || c.ignored == "" && ignored != nil {
			t.Errorf("%s: ignored %q, expected %s", c.next, ignored, c.ignored)
		}
	}
	if _, _, _, err := load(base+"capsules:\n  other: {queues: [x]}\n").Reload(load(base), ""); err == nil || !strings.Contains(err.Error(), `"other" is gone`) {
		t.Errorf("a capsule is gone: %v", err)
	}
}
