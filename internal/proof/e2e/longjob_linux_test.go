package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit/chaos"
)

// longJobs makes a waiting, a scheduled and a dead job of as many bytes; the jids are a, b or d, 24 times.
const longJobs = `
local now = tonumber(redis.call('TIME')[1])
local long = string.rep('x', tonumber(ARGV[1]))
local function job(letter, more)
  return '{"retry":true,"queue":"long","class":"Long","args":["' .. long .. '"],"jid":"' .. string.rep(letter, 24) .. '","created_at":1795225014.5,"enqueued_at":1795225015.5' .. more .. '}'
end
local failed = ',"error_class":"E","error_message":"boom","retry_count":25,"failed_at":' .. now
redis.call('SADD', 'queues', 'long')
redis.call('LPUSH', 'queue:long', job('a', ''))
redis.call('ZADD', 'schedule', now + 36000, job('b', ''))
redis.call('ZADD', 'dead', now, job('d', failed))
return 1`

// peak is the most memory that a process has had, in bytes; 0 if it has ended.
func peak(p *chaos.Process) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	_, text, _ := strings.Cut(string(status), "VmHWM:")
	if fields := strings.Fields(text); len(fields) > 0 {
		kilobytes, _ := strconv.Atoi(fields[0])
		return kilobytes << 10
	}
	return 0
}

// With a waiting job, a scheduled and a dead one of 100 MB each page and each command that may show
// them answers, and holds less than one of them.
func TestLongJobsOnPagesAndInCommands(t *testing.T) {
	t.Parallel()
	const long, limit = 100 << 20, 5 * time.Minute
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: limit})
	t.Cleanup(func() { _ = rdb.Close() })
	harness.OK(t, rdb.Eval(t.Context(), longJobs, nil, long).Err())
	bounded := func(what string, most int) {
		t.Helper()
		t.Logf("%s: %d MB", what, most>>20)
		if most > long && !harness.Race {
			t.Errorf("%s takes %d MB", what, most>>20)
		}
	}
	letters := []string{"a", "b", "d"}
	jid := func(letter string) string { return strings.Repeat(letter, 24) }

	p := procs.Troupe(t, nil, "web", "--redis", server.URL(0), "--listen", "127.0.0.1:0")
	address, missing := regexp.MustCompile(`http://[0-9.:]+`), regexp.MustCompile(`100 MB, too long to show|… and 99\.9 MB more`)
	harness.AwaitFor(t, soon, "it serves", func() bool { return address.MatchString(p.Stdout()) })
	base := address.FindString(p.Stdout())
	paths := []string{"/", "/queues", "/queues/long", "/scheduled", "/dead", "/dead?q=boom", "/classes", "/search?q=Long", "/events"}
	for _, letter := range letters {
		paths = append(paths, "/jobs/"+jid(letter))
	}
	for _, path := range paths {
		page, query, _ := strings.Cut(path, "?")
		for _, address := range []string{path, strings.Replace(page+".json?"+query, "/.json", "/index.json", 1)} {
			body := ""
			harness.AwaitFor(t, limit, address+" answers", func() bool { // one page may wait too long for a Redis that others keep busy
				r := harness.Must(http.Get(base + address))(t)
				defer func() { _ = r.Body.Close() }()
				text, err := io.ReadAll(r.Body)
				body = string(text)
				return err == nil && r.StatusCode == http.StatusOK
			})
			if len(body) > 1<<20 {
				t.Errorf("%s has %d bytes", address, len(body))
			}
			if strings.Contains(address, ".json") && !json.Valid([]byte(body)) {
				t.Errorf("%s is no JSON: %.1000s", address, body)
			}
			if strings.HasPrefix(path, "/jobs/") && !missing.MatchString(body) {
				t.Errorf("%s does not say how much more there is: %.3000s", address, body)
			}
		}
	}
	bounded("troupe web", peak(p))
	p.Stop(soon)

	lines := []string{
		"stats", "queues", "queues show long", "doctor", "jobs list queue:long", "jobs list scheduled", "jobs list dead --json", "jobs list dead --text boom",
		"jobs delete dead --error boom --dry-run",
	}
	for _, letter := range letters {
		lines = append(lines, "jobs show --args show "+jid(letter), "explain "+jid(letter))
	}
	for _, line := range lines {
		p := procs.Troupe(t, nil, append(strings.Fields(line), "--redis", server.URL(0))...)
		most := 0
		harness.AwaitFor(t, limit, line+" ends", func() bool { most = max(most, peak(p)); return !p.Running() })
		if code := p.Exit(soon); code == 1 || len(p.Stdout()) > 1<<20 || p.Stdout() == "" {
			t.Errorf("troupe %s: exit code %d, %d bytes\n%.2000s", line, code, len(p.Stdout()), p.Stderr())
		}
		if strings.HasPrefix(line, "jobs show") && !missing.MatchString(p.Stdout()) {
			t.Errorf("troupe %s does not say how much more there is: %.3000s", line, p.Stdout())
		}
		bounded("troupe "+line, most)
	}
}
