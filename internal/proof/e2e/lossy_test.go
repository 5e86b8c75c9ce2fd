package e2e

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupehq/troupe/internal/script"
)

// lossy stands between clients and a Redis. It can lose one reply: the command
// is carried out, and the connection ends before the answer.
type lossy struct {
	url  string // of the database behind it
	lost chan struct{}

	rule atomic.Pointer[loss] // what to lose; nil once it is done
	most atomic.Int64         // bytes of a command: a larger one ends its connection; 0: any

	mu   sync.Mutex
	open []net.Conn
}

// loss tells which reply is lost.
type loss struct {
	command func(c command) bool
	reply   func(text string) bool // nil: any
}

// command is one as the client sends it.
type command []string

func (c command) is(name string) bool { return strings.EqualFold(c[0], name) }

// runs reports whether it runs the script with this name, see script.Names.
func (c command) runs(name string) bool {
	if !c.is("evalsha") && !c.is("eval") || len(c) < 3 {
		return false
	}
	hash := c[1]
	if c.is("eval") {
		sum := sha1.Sum([]byte(c[1]))
		hash = hex.EncodeToString(sum[:])
	}
	return script.Names()[hash] == name
}

// argv are the arguments of a script.
func (c command) argv() []string {
	keys, err := strconv.Atoi(c[2])
	if err != nil {
		return nil
	}
	return c[3+keys:]
}

// newLossy opens a lossy way to the database at url.
func newLossy(t testing.TB, url string) *lossy {
	t.Helper()
	addr, db, _ := strings.Cut(strings.TrimPrefix(url, "redis://"), "/")
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &lossy{url: fmt.Sprintf("redis://%s/%s", l.Addr(), db), lost: make(chan struct{}, 10)}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := new(net.Dialer).DialContext(context.Background(), "tcp", addr)
			if err != nil {
				_ = in.Close()
				continue
			}
			p.mu.Lock()
			p.open = append(p.open, in, out)
			p.mu.Unlock()
			p.serve(in, out)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.open {
			_ = c.Close()
		}
	})
	return p
}

// lose arms the loss of one reply.
func (p *lossy) lose(command func(command) bool, reply func(string) bool) {
	p.rule.Store(&loss{command, reply})
}

func (p *lossy) serve(in, out net.Conn) {
	var cut atomic.Pointer[loss] // the next reply on this connection
	go func() {
		defer func() { _ = out.Close() }()
		r := bufio.NewReaderSize(in, 64<<10)
		for {
			raw, cmd, err := readCommand(r)
			if err != nil {
				return
			}
			if most := p.most.Load(); most > 0 && int64(len(raw)) > most {
				return
			}
			if rule := p.rule.Load(); rule != nil && rule.command(cmd) {
				cut.Store(rule)
			}
			if _, err := out.Write(raw); err != nil {
				return
			}
		}
	}()
	go func() {
		defer func() { _ = in.Close() }()
		buf := make([]byte, 1<<20)
		for {
			n, err := out.Read(buf)
			if err != nil {
				return
			}
			if rule := cut.Swap(nil); rule != nil && answers(rule, string(buf[:n])) &&
				p.rule.CompareAndSwap(rule, nil) {
				p.lost <- struct{}{}
				return
			}
			if _, err := in.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
}

func answers(rule *loss, text string) bool {
	return !strings.HasPrefix(text, "-NOSCRIPT") && (rule.reply == nil || rule.reply(text))
}

// readCommand reads one command, an array of bulk strings.
func readCommand(r *bufio.Reader) (raw []byte, cmd command, err error) {
	number := func(mark byte) (int, error) {
		text, err := r.ReadBytes('\n')
		if err != nil {
			return 0, err
		}
		raw = append(raw, text...)
		if text[0] != mark {
			return 0, fmt.Errorf("client sent %q", text)
		}
		return strconv.Atoi(strings.TrimSpace(string(text[1:])))
	}
	n, err := number('*')
	if err != nil {
		return nil, nil, err
	}
	for range n {
		size, err := number('$')
		if err != nil {
			return nil, nil, err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(r, word); err != nil {
			return nil, nil, err
		}
		raw = append(raw, word...)
		cmd = append(cmd, string(word[:size]))
	}
	return raw, cmd, nil
}
