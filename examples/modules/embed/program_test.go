package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/testkit"
)

// program is the service as a process, with a real Redis.
type program struct {
	*exec.Cmd
	addr string
	log  *logged
	read chan struct{} // closed when the log has ended
}

func start(t *testing.T) (*program, *redis.Client) {
	t.Helper()
	rdb := testkit.Redis(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	bin := filepath.Join(t.TempDir(), "embed")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	p := &program{Cmd: exec.CommandContext(ctx, bin), log: new(logged), read: make(chan struct{})}
	o := rdb.Options()
	p.Env = append(os.Environ(), "ADDR=127.0.0.1:0", fmt.Sprintf("REDIS_URL=redis://%s/%d", o.Addr, o.DB))
	stderr, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for p.addr == "" && lines.Scan() {
		_, _ = fmt.Fprintln(p.log, lines.Text())
		var line struct{ Message, Addr string }
		if err := json.Unmarshal(lines.Bytes(), &line); err == nil && line.Message == "listening" {
			p.addr = line.Addr
		}
	}
	go func() {
		defer close(p.read)
		for lines.Scan() {
			_, _ = fmt.Fprintln(p.log, lines.Text())
		}
	}()
	if p.addr == "" {
		<-p.read
		t.Fatalf("it does not listen:\n%s", &p.log.b)
	}
	return p, rdb
}

// wait waits for the end.
func (p *program) wait() error {
	<-p.read // before Wait, which closes the pipe
	return p.Wait()
}

// An order by HTTP, and TERM.
func TestTheProgram(t *testing.T) {
	p, rdb := start(t)
	for range 3 {
		if code, err := post(http.DefaultClient, "http://"+p.addr, strings.NewReader(`{"ID": 7, "Email": "a@example.com"}`)); code != http.StatusAccepted {
			t.Errorf("the order is answered with %d, %v", code, err)
		}
	}
	resp, err := http.Get("http://" + p.addr + "/health")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("health is answered with %s", resp.Status)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.wait(); err != nil {
		t.Errorf("exit: %v\n%s", err, &p.log.b)
	}
	done := rdb.Get(t.Context(), "stat:processed").Val()
	waiting := rdb.LLen(t.Context(), "queue:orders").Val()
	if n := fmt.Sprint(3 - waiting); done != n && (done != "" || waiting != 3) {
		t.Errorf("%s jobs were processed and %d wait, of 3\n%s", done, waiting, &p.log.b)
	}
	if n := rdb.Exists(t.Context(), "troupe:places", "processes").Val(); n != 0 {
		t.Error("it has left traces of itself")
	}
}

// Who signals twice does not want to wait for a request that hangs.
func TestASecondSignalEndsTheProgramAtOnce(t *testing.T) {
	p, _ := start(t)
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprint(c, "POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, "100 Continue") { // its handler reads
		t.Fatalf("%q %v", line, err)
	}
	signal := func() { _ = p.Process.Signal(syscall.SIGTERM) }
	signal()
	for p.log.index("stopping") < 0 {
		time.Sleep(time.Millisecond) // another process: nothing to wait on
	}
	again := time.NewTicker(10 * time.Millisecond) // the first ones may come before the handler is gone
	defer again.Stop()
	for ended := false; !ended; {
		select {
		case <-again.C:
			signal()
		case <-p.read:
			ended = true
		}
	}
	err = p.wait()
	if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("exit: %v\n%s", err, &p.log.b)
	}
}
