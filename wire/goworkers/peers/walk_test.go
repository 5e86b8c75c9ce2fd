package peers

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	workers1 "github.com/jrallison/go-workers"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/wire/goworkers"
)

const root = "../../.."

// command builds the command troupe.
func command(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "troupe")
	build := exec.Command("go", "build", "-o", bin, "./cmd/troupe")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

// The file and the commands of docs/go-workers.md, beside a real go-workers.
func TestTheWalkOfTheManual(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile(root + "/docs/go-workers.md")
	must(t, "manual", err)
	block := func(language string) (texts []string) {
		for _, m := range regexp.MustCompile("(?s)```"+language+"\\n(.*?)```").FindAllStringSubmatch(string(manual), -1) {
			texts = append(texts, m[1])
		}
		return texts
	}
	bin, dir := command(t), t.TempDir()
	rdb, addr := redisFor(t)
	ctx := t.Context()
	file := filepath.Join(dir, "troupe.yml")
	must(t, "file", os.WriteFile(file, []byte(block("yaml")[0]), 0o600))
	troupe := func(line string) string {
		c := exec.Command(bin, strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "troupe "))...)
		c.Env = append(os.Environ(), "REDIS_URL=redis://"+addr)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		return string(out)
	}
	if out := troupe("troupe check -C " + file); !strings.Contains(out, "jobs of go-workers in app") {
		t.Errorf("check: %s", out)
	}

	web1 := start(t, peer{Kind: "v1", Addr: addr, Namespace: "app", Process: "web-1", Queues: []string{"mail"}, Conc: 2})
	for range 2 {
		push1(t, addr, "app", func() (string, error) { return workers1.Enqueue("mail", "Mail", []string{"hold"}) })
	}
	harness.AwaitFor(t, 2*harness.Patience, "go-workers has both", func() bool { return len(ran(t, rdb)) == 2 })

	daemon := exec.Command(bin, "run", "-C", file)
	daemon.Env = append(os.Environ(), "REDIS_URL=redis://"+addr)
	var out harness.Buffer
	daemon.Stdout, daemon.Stderr = &out, &out
	must(t, "run", daemon.Start())
	defer func() { _ = daemon.Process.Kill() }()
	_, err = goworkers.NewClient(rdb, "app").Push(ctx, goworkers.Job{Queue: "mail", Args: map[string]string{"to": "beside"}})
	must(t, "push", err)
	harness.AwaitFor(t, 2*harness.Patience, "the daemon ran it", func() bool { return strings.Contains(out.String(), "beside") })

	web1.kill()
	adopt := strings.Split(strings.TrimSpace(block("sh")[0]), "\n")
	if text := troupe(adopt[0]); !strings.Contains(text, "web-1") || !strings.Contains(text, "put back 0 jobs") {
		t.Errorf("%s: %s", adopt[0], text)
	}
	if text := troupe(adopt[1]); !strings.Contains(text, "put back 2 jobs") {
		t.Errorf("%s: %s", adopt[1], text)
	}
	harness.AwaitFor(t, 2*harness.Patience, "the daemon ran both", func() bool { return strings.Count(out.String(), "hold") == 2 })

	// a daemon that is killed, and the way back
	held := start(t, peer{Kind: "troupe", Addr: addr, Namespace: "app", Queues: []string{"thumbs"}, Lease: 2 * time.Second})
	_ = daemon.Process.Kill()
	_ = daemon.Wait()
	_, err = goworkers.NewClient(rdb, "app").Push(ctx, goworkers.Job{Queue: "thumbs", Args: []string{"hold"}})
	must(t, "push", err)
	harness.AwaitFor(t, 2*harness.Patience, "it has it", func() bool { return len(ran(t, rdb)) == 3 })
	held.kill()
	rdb.Set(ctx, "release", 1, 0)
	if text := troupe("troupe inflight --namespace app"); !strings.Contains(text, "thumbs") {
		t.Errorf("inflight: %s", text)
	}
	if text := troupe(block("sh")[1]); !strings.Contains(text, "thumbs") {
		t.Errorf("%s: %s", block("sh")[1], text)
	}
	start(t, peer{Kind: "v1", Addr: addr, Namespace: "app", Process: "web-1", Queues: []string{"thumbs"}})
	harness.AwaitFor(t, 2*harness.Patience, "go-workers runs it", func() bool {
		all := ran(t, rdb)
		return len(all) == 4 && all[3].kind == "v1"
	})
}
