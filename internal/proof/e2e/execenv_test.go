package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// A program gets neither the password of Redis nor the secret of another handler,
// and a job that it cannot be told of is dead at once.
func TestExecEnvironment(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "troupe.yml")
	config := fmt.Sprintf(`
log: json
env: [SHOP_FOR_ALL]
handlers:
  Env:  {exec: [/bin/sh, -c, 'env > %[1]s/writing; mv %[1]s/writing %[1]s/env'], env: [SHOP_FOR_ENV]}
  Hook: {http: {url: "http://127.0.0.1:1/", secret: {env: SHOP_SECRET}}}
`, dir)
	harness.OK(t, os.WriteFile(file, []byte(config), 0o600))
	p := procs.Troupe(t, []string{"REDIS_URL=" + url, "SHOP_FOR_ALL=1", "SHOP_FOR_ENV=2", "SHOP_SECRET=3", "SHOP_OTHER=4"}, "run", "-C", file)
	p.Ready()
	rdb.LPush(t.Context(), "queue:default", `{"class":"Env","jid":"one\ntwo","queue":"default","args":[],"retry":true}`)
	testkit.Await(t, "the job has run", func() bool { _, err := os.Stat(filepath.Join(dir, "env")); return err == nil })
	text := harness.Must(os.ReadFile(filepath.Join(dir, "env")))(t)
	var got []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "SHOP_") || strings.HasPrefix(line, "TROUPE_") || strings.HasPrefix(line, "REDIS_") {
			got = append(got, line)
		}
	}
	slices.Sort(got)
	if want := "[SHOP_FOR_ALL=1 SHOP_FOR_ENV=2 TROUPE_ATTEMPT=1 TROUPE_CLASS=Env TROUPE_JID=one%0Atwo TROUPE_QUEUE=default]"; fmt.Sprint(got) != want {
		t.Errorf("environment %s, want %s", got, want)
	}

	for _, jid := range []string{`a\u0000b`, strings.Repeat("x", 200_000)} {
		raw := fmt.Sprintf(`{"class":"Env","jid":"%s","queue":"default","args":[],"retry":true}`, jid)
		rdb.LPush(t.Context(), "queue:default", raw)
		dead := only(t, rdb, "dead")
		message, _ := dead.String("error_message")
		if class, _ := dead.String("error_class"); class != "not started" || !strings.HasPrefix(message, "jid is ") {
			t.Errorf("dead with %s: %s", class, message)
		}
		harness.Equal(t, "jobs are to be retried", rdb.ZCard(t.Context(), "retry").Val(), 0)
		rdb.Del(t.Context(), "dead")
	}
	p.Stop(soon)
}
