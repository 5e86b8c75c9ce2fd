package outbox

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/outbox"
	"github.com/troupehq/troupe/testkit"
)

// The relay of a daemon from a file beside MariaDB, whose user has the documented rights alone, and the commands.
func TestTheDoorWithMariaDB(t *testing.T) {
	d := &door{box: newBox(t, dialects[1]), server: testkit.NewServer(t, "--appendonly", "yes")}
	var err error
	d.binary, err = troupeBinary()
	must(t, err)
	d.rdb = d.server.Client
	d.Outbox = outbox.New(client.New(d.rdb), outbox.MySQL)
	manual, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "outbox.md"))
	must(t, err)
	d.exec(t, "CREATE USER relay@localhost")
	for _, grant := range regexp.MustCompile(`(?m)^GRANT .* TO relay;$`).FindAllString(string(manual), -1) {
		d.exec(t, strings.Replace(grant, "TO relay;", "TO relay@localhost", 1))
	}
	d.file = filepath.Join(t.TempDir(), "troupe.yml")
	must(t, os.WriteFile(d.file, fmt.Appendf(nil, "redis: %s\noutbox: {main: {dsn: {env: DATABASE_URL}, dialect: mysql, keep: 1h}}\n", d.server.URL(0)), 0o600))
	d.env = append(os.Environ(), "DATABASE_URL="+strings.Replace(d.url, "root@", "relay@", 1))
	p := d.run(t)
	jid, err := d.Push(t.Context(), d.db, welcome{1})
	must(t, err)
	d.exec(t, "INSERT INTO troupe_outbox (payload) VALUES ('no job')")
	arrived := func(n int) func() bool {
		return func() bool { jobs := d.jobs(t, "mail"); return len(jobs) == n && jobs[n-1].JID() == jid }
	}
	testkit.Await(t, "it is pushed", arrived(1))
	testkit.Await(t, "a row is put aside", func() bool { return d.count(t, "troupe_outbox_bad") == 1 })
	if out := d.command(t, "outbox", "status"); !strings.Contains(out, "invalid payload") {
		t.Errorf("status:\n%s", out)
	}
	d.command(t, "outbox", "replay", "--since", "1h")
	testkit.Await(t, "it is pushed again", arrived(2))
	if out := d.command(t, "outbox", "schema"); !strings.Contains(out, "AUTO_INCREMENT") {
		t.Errorf("schema:\n%s", out)
	}
	p.kill()
}
