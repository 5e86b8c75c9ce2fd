package meter

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Monitor counts the commands that clients send, by means of MONITOR, which
// marks those inside scripts. It slows the server down: never in a run whose
// rate counts.
type Monitor struct {
	conn net.Conn
	mine func(addr string) bool
	done chan struct{}
	err  error // after done

	mu      sync.Mutex
	clients map[string]int64 // by name, sent by clients
	marks   map[string]bool  // what Sync has sent
}

// Watch starts to count on the server at addr. Commands from addresses for
// which mine is true do not count.
func Watch(ctx context.Context, addr string, mine func(string) bool) (*Monitor, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(conn, 1<<20)
	if line, err := r.ReadString('\n'); err != nil || line != "+OK\r\n" {
		_ = conn.Close()
		return nil, fmt.Errorf("MONITOR: %q %w", line, err)
	}
	m := &Monitor{conn: conn, mine: mine, done: make(chan struct{}), clients: map[string]int64{}, marks: map[string]bool{}}
	go m.read(r)
	return m, nil
}

func (m *Monitor) read(r *bufio.Reader) {
	defer close(m.done)
	for {
		line, err := r.ReadSlice('\n')
		m.count(line)
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line
			_, err = r.ReadSlice('\n')
		}
		if err != nil {
			m.err = err
			return
		}
	}
}

// count takes a line like
//
//	+1795225158.789289 [0 127.0.0.1:60866] "EVALSHA" "…" …
//	+1795225158.789301 [0 lua] "hdel" …
func (m *Monitor) count(line []byte) {
	_, rest, ok := bytes.Cut(line, []byte(" ["))
	if !ok {
		return
	}
	from, rest, _ := bytes.Cut(rest, []byte("] \""))
	_, addr, _ := bytes.Cut(from, []byte(" "))
	name, rest, _ := bytes.Cut(rest, []byte("\""))
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case string(addr) == "lua": // inside a script
	case !m.mine(string(addr)):
		m.clients[string(bytes.ToUpper(name))]++
	case string(bytes.ToLower(name)) == "echo":
		m.marks[string(bytes.Trim(rest, " \"\r\n"))] = true
	}
}

// Sync waits until everything is counted that the server had done before. c is
// a client whose connections are the driver's own.
func (m *Monitor) Sync(ctx context.Context, c *redis.Client) error {
	mark := fmt.Sprint("mark-", time.Now().UnixNano())
	if err := c.Echo(ctx, mark).Err(); err != nil {
		return err
	}
	for {
		m.mu.Lock()
		seen := m.marks[mark]
		m.mu.Unlock()
		if seen {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.done:
			return fmt.Errorf("MONITOR ended: %w", m.err)
		case <-time.After(time.Millisecond):
		}
	}
}

// Commands is what clients have sent so far, by name.
func (m *Monitor) Commands() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.clients)
}

// Close ends the counting; it fails if the server had ended it before.
func (m *Monitor) Close() error {
	select {
	case <-m.done:
		return fmt.Errorf("MONITOR ended: %w", m.err)
	default:
	}
	_ = m.conn.SetDeadline(time.Now())
	err := m.conn.Close()
	<-m.done
	return err
}
