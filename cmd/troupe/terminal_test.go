//go:build linux

package main

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// pty returns the two ends of a pseudo-terminal: what a person types is written to the first, the
// program reads it from the second.
func pty(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	fd := int(person.Fd())
	harness.OK(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n := harness.Must(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	program = harness.Must(os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

// prompt is the standard error, which hears of a question.
type prompt struct {
	mu    sync.Mutex
	text  bytes.Buffer
	asked chan struct{}
}

func (p *prompt) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if bytes.Contains(b, []byte("type ")) {
		close(p.asked)
	}
	return p.text.Write(b)
}

// On a terminal the jobs of a queue are deleted when their number was typed, however few they are.
func TestClearAsksOnATerminal(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	for _, c := range []struct {
		typed string
		flags []string
		code  int
		left  int64
		says  string
	}{
		{typed: "y", code: 4, left: 3, says: "nothing was done"},
		{typed: "", code: 4, left: 3, says: "nothing was done"},
		{typed: "2", code: 4, left: 3, says: "nothing was done"},
		{typed: "3", code: 0, left: 0, says: "deleted 3 jobs"},
		{flags: []string{"--yes"}, code: 0, left: 0, says: "deleted 3 jobs"},
	} {
		harness.OK(t, rdb.Do(t.Context(), "DEL", "queue:low").Err())
		harness.OK(t, rdb.Do(t.Context(), "SADD", "queues", "low").Err())
		harness.OK(t, rdb.Do(t.Context(), "LPUSH", "queue:low", `{"class":"A","jid":"1","args":[]}`, `{"class":"A","jid":"2","args":[]}`, `{"class":"A","jid":"3","args":[]}`).Err())
		person, program := pty(t)
		errs := &prompt{asked: make(chan struct{})}
		var out bytes.Buffer
		root := rootCommand()
		root.SetOut(&out)
		root.SetErr(errs)
		root.SetIn(program)
		ended := make(chan int, 1)
		go func() {
			ended <- execute(t.Context(), root, append([]string{"queues", "clear", "low", "--redis", url}, c.flags...))
		}()
		if c.flags == nil {
			select {
			case <-errs.asked:
				harness.Equal(t, "jobs before the answer", rdb.LLen(t.Context(), "queue:low").Val(), 3)
				_, err := io.WriteString(person, c.typed+"\n")
				harness.OK(t, err)
			case code := <-ended:
				t.Fatalf("it has not asked: exit code %d, %s%s", code, out.String(), errs.text.String())
			}
		}
		select {
		case code := <-ended:
			all := out.String() + errs.text.String()
			if left := rdb.LLen(t.Context(), "queue:low").Val(); code != c.code || left != c.left || !strings.Contains(all, c.says) {
				t.Errorf("%q typed, %v: exit code %d, %d jobs left, %s", c.typed, c.flags, code, left, all)
			}
			if asked := strings.Contains(all, "To delete 3 jobs of the queue low, type 3: "); asked != (c.flags == nil) {
				t.Errorf("%q typed, %v: asked: %v: %s", c.typed, c.flags, asked, all)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%q typed: it does not end", c.typed)
		}
	}
}
