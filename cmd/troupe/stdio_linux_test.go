package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/handler"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/ops"
	"github.com/troupehq/troupe/testkit"
)

// program is one of a user's, with a logger of its own. TELLS is what its jobs of the class Tell run,
// OPS where it serves probes.
func program() {
	opt, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		panic(err)
	}
	var r troupe.Registry
	troupe.HandleClass(&r, "NoOp", troupe.HandlerFunc(func(_ context.Context, _ *troupe.Payload) error { return nil }))
	troupe.HandleClass(&r, "Fail", troupe.HandlerFunc(func(_ context.Context, _ *troupe.Payload) error { return errors.New("on purpose") }))
	troupe.HandleClass(&r, "Sleep", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error { <-ctx.Done(); return ctx.Err() }))
	log := zerolog.New(os.Stderr)
	tell, err := handler.NewExec(handler.ExecOptions{Command: []string{"sh", os.Getenv("TELLS")}, Logger: log})
	if err != nil {
		panic(err)
	}
	troupe.HandleClass(&r, "Tell", tell)
	cfg := actors.Config{Redis: redis.NewClient(opt), Registry: &r, Logger: log, Concurrency: 3, Timeout: time.Second}
	cfg.On.Created = append(cfg.On.Created, func(d *actors.Daemon) {
		l, err := net.Listen("tcp", os.Getenv("OPS"))
		if err != nil {
			panic(err)
		}
		go func() { _ = http.Serve(l, ops.Handler(d)) }()
	})
	os.Exit(actors.Main(cfg))
}

// daemon is a process whose stdout and stderr are one pipe.
type daemon struct {
	t    *testing.T
	cmd  *exec.Cmd
	pid  int      // of the daemon itself
	log  *os.File // where it is read
	ops  string
	url  string // of Redis
	told string // file with what a job of the class Tell has told
	rdb  *redis.Client
	end  chan error
}

// start starts a daemon. Before is what its shell does first, and by which program it runs it.
func start(t *testing.T, before, name string) *daemon {
	t.Helper()
	dir := t.TempDir()
	rdb, url := redistest.New(t)
	l := harness.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	d := &daemon{t: t, rdb: rdb, url: url, told: filepath.Join(dir, "told"), ops: l.Addr().String(), end: make(chan error, 1)}
	_ = l.Close()
	tells := filepath.Join(dir, "tells")
	for path, text := range map[string]string{
		tells: fmt.Sprintf(`grep SigIgn /proc/self/status >%[1]s.new; ls -l /proc/$$/fd >>%[1]s.new; mv %[1]s.new %[1]s`, d.told),
		filepath.Join(dir, "troupe.yml"): fmt.Sprintf("concurrency: 3\nhandlers:\n  NoOp: {builtin: noop}\n  Fail: {builtin: fail}\n  Sleep: {builtin: sleep}\n"+
			"  Tell: {exec: [sh, %s]}\n  Orphans: {exec: [sh, -c, '(sleep 0.1 &); (setsid sleep 0.3 &); cat >/dev/null']}\n", tells),
	} {
		harness.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	command := map[string]string{
		"run": "troupe run -t 1 --ops " + d.ops, "program": "program",
		"web": "troupe web --listen " + d.ops,
	}[name]
	r, w, err := os.Pipe()
	harness.OK(t, err)
	harness.Must(unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096))(t)
	d.log = r
	d.cmd = exec.CommandContext(t.Context(), "sh", "-c", before+command)
	d.cmd.Dir, d.cmd.Stdout, d.cmd.Stderr = dir, w, w
	d.cmd.Env = append(os.Environ(), "REDIS_URL="+url, "TELLS="+tells, "OPS="+d.ops)
	harness.OK(t, d.cmd.Start())
	_ = w.Close()
	d.pid = d.cmd.Process.Pid
	go func() { d.end <- d.cmd.Wait() }()
	t.Cleanup(func() { _, _ = d.cmd.Process.Kill(), r.Close() })
	return d
}

// reads reads the log up to a line.
func (d *daemon) reads(has string) {
	d.t.Helper()
	for lines := bufio.NewReader(d.log); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			d.t.Fatalf("the log ends before %q: %v", has, err)
		}
		if strings.Contains(line, has) {
			return
		}
	}
}

func (d *daemon) push(class string, count int) {
	d.t.Helper()
	pipe := d.rdb.Pipeline()
	pipe.SAdd(d.t.Context(), "queues", "default")
	for i := range count {
		pipe.LPush(d.t.Context(), "queue:default", fmt.Sprintf(`{"class":%q,"args":[60],"jid":"%024x","queue":"default","retry":true,"created_at":1,"enqueued_at":1}`, class, i))
	}
	harness.Must(pipe.Exec(d.t.Context()))(d.t)
}

func (d *daemon) processed(class string, n int) {
	d.t.Helper()
	testkit.Await(d.t, fmt.Sprint(n, " jobs are done"), func() bool {
		return d.metric(fmt.Sprintf("troupe_job_runs_total{class=%q,outcome=\"done\"}", class)) == float64(n)
	})
}

// ask asks the listener of the daemon; 0 is no answer.
func (d *daemon) ask(path string) (code int, body string) {
	client := http.Client{Timeout: 10 * time.Second}
	reply, err := client.Get("http://" + d.ops + path)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = reply.Body.Close() }()
	text, _ := io.ReadAll(reply.Body)
	return reply.StatusCode, string(text)
}

// metric is the value of one, -1 if there is none.
func (d *daemon) metric(name string) float64 {
	code, body := d.ask("/metrics")
	if code != http.StatusOK {
		return -1
	}
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return n
		}
	}
	return -1
}

// stops sends TERM and waits for the end.
func (d *daemon) stops() {
	d.t.Helper()
	_ = syscall.Kill(d.pid, syscall.SIGTERM)
	select {
	case err := <-d.end:
		if err != nil {
			d.t.Errorf("it ends with %v", err)
		}
	case <-time.After(time.Minute): // 9 s are promised
		d.t.Error("it does not end")
	}
}

// Journald is restarted, or the shim of a container, or tee is killed.
func TestAProcessOutlivesTheReaderOfItsLog(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "trap '' PIPE; "} {
		for name, up := range map[string]string{"run": "troupe is running", "program": "troupe is running", "web": "the dashboard of"} {
			t.Run(name+" "+before, func(t *testing.T) {
				t.Parallel()
				d := start(t, "exec 7<troupe.yml; "+before+"exec ", name)
				d.reads(up)
				_ = d.log.Close()
				switch name {
				case "web":
					harness.OK(t, d.rdb.Set(t.Context(), "retry", "no set", 0).Err())
					if code, _ := d.ask("/retries"); code < 500 { // which is logged
						t.Errorf("a page that fails is %d", code)
					}
					testkit.Await(t, "it goes on", func() bool { code, _ := d.ask("/audit"); return code == http.StatusOK })
				default:
					d.push("Fail", 3)
					testkit.Await(t, "the failures are stored", func() bool { return d.rdb.ZCard(t.Context(), "retry").Val() == 3 })
					d.push("Tell", 1)
					testkit.Await(t, "a program has run", func() bool { _, err := os.Stat(d.told); return err == nil })
					told := harness.Must(os.ReadFile(d.told))(t)
					ignored, rest, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(string(told), "SigIgn:")), "\n")
					if mask, err := strconv.ParseUint(ignored, 16, 64); err != nil || mask&(1<<(syscall.SIGPIPE-1)) != 0 {
						t.Errorf("a program ignores the signals %s: %v", ignored, err)
					}
					if strings.Contains(rest, "troupe.yml") {
						t.Errorf("a program has inherited what its daemon has:\n%s", rest)
					}
					if n := d.metric("troupe_log_lines_dropped_total"); n < 3 {
						t.Errorf("%v lines are counted as dropped", n)
					}
				}
				d.stops()
			})
		}
	}
}

// The reader of a log has been stopped, and the pipe is full.
func TestALogThatNobodyReads(t *testing.T) {
	t.Parallel()
	const jobs = 12_000 // of more than 1 MiB of log
	for _, name := range []string{"run", "program"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t, "exec ", name)
			d.reads("troupe is running")
			d.push("NoOp", jobs)
			d.processed("NoOp", jobs)
			testkit.Await(t, "lines are dropped, and nobody reads", func() bool {
				return d.metric("troupe_log_lines_dropped_total") > 0 && d.metric("troupe_log_blocked_seconds") > 0
			})
			testkit.Await(t, "its next beat tells it", func() bool {
				out, _ := exec.CommandContext(t.Context(), "troupe", "doctor", "--redis", d.url).CombinedOutput()
				return strings.Contains(string(out), " is blocked: ")
			})
			d.reads("lines of the log were dropped here")
			drain := make(chan []byte, 1)
			go func() { all, _ := io.ReadAll(d.log); drain <- all }()
			d.push("NoOp", 1)
			d.processed("NoOp", jobs+1)
			d.stops()
			if all := string(<-drain); !strings.Contains(all, `"message":"stopped"`) {
				t.Errorf("the end of the log is missing:\n%s", all[max(0, len(all)-2000):])
			}
		})
		t.Run(name+" is stopped", func(t *testing.T) {
			t.Parallel()
			d := start(t, "exec ", name)
			d.reads("troupe is running")
			d.push("Sleep", 3)
			testkit.Await(t, "they run", func() bool { return d.metric(`troupe_processors{capsule="default",state="busy"}`) == 3 })
			_ = d.cmd.Process.Signal(syscall.SIGTTIN) // all stacks are more than the pipe holds
			testkit.Await(t, "nobody reads", func() bool { return d.metric("troupe_log_blocked_seconds") > 0 })
			d.stops()
			harness.Equal(t, "jobs are in the queue", d.rdb.LLen(t.Context(), "queue:default").Val(), 3)
		})
	}
}

// subreaper runs a program that gets the orphans among its descendants, as process 1 of a container does.
func subreaper() {
	path, err := exec.LookPath(os.Args[1])
	if err == nil {
		err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
	if err == nil {
		err = syscall.Exec(path, os.Args[1:], os.Environ())
	}
	panic(err)
}

// What the programs of jobs leave behind does not stay, and each job has the outcome of its program.
func TestNoZombieStays(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{"subreaper": "exec subreaper ", "process 1": "exec unshare --fork --pid --mount-proc --kill-child "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "process 1" {
				if err := exec.CommandContext(t.Context(), "unshare", "--fork", "--pid", "--mount-proc", "true").Run(); err != nil {
					redistest.Missing(t, fmt.Errorf("unshare: %w", err))
				}
			}
			d := start(t, before, "run")
			d.reads("troupe is running")
			if name == "process 1" {
				d.pid = childrenOf(d.pid)[0]
			}
			go func() { _, _ = io.Copy(io.Discard, d.log) }()
			d.push("Orphans", 40)
			d.processed("Orphans", 40)
			testkit.Await(t, "nothing is left of them", func() bool { return len(childrenOf(d.pid)) == 0 })
			d.stops()
		})
	}
}

// childrenOf are the children of a process, the zombies among them.
func childrenOf(parent int) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		text, _ := os.ReadFile(name)
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}
