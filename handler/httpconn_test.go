package handler

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/handlerconf"
	"github.com/troupehq/troupe/internal/test/harness"
)

// As many connections stay open as jobs run at once.
func TestHTTPConnectionsAreUsedAgain(t *testing.T) {
	const jobs = 20
	var opened atomic.Int32
	var mu sync.Mutex
	waiting, all := 0, make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock() // answer when all are there: they need a connection each
		mine := all
		if waiting++; waiting == jobs {
			close(all)
			waiting, all = 0, make(chan struct{})
		}
		mu.Unlock()
		<-mine
		w.WriteHeader(500)
		_, _ = io.WriteString(w, strings.Repeat("long text ", 1000))
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	tr := handlerconf.Transport(jobs)
	defer tr.CloseIdleConnections()
	h := harness.Must(newHTTP(HTTPOptions{URL: s.URL, Transport: tr}))(t)
	for range 5 {
		var wg sync.WaitGroup
		for range jobs {
			wg.Go(func() {
				if err := h.Perform(t.Context(), job(sample)); troupe.ErrorClass(err) != "HTTP 500" {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	// On a busy machine net/http gives up a connection now and then whose writer
	// is late to report. Without any use again it would be five times as many.
	if n := opened.Load(); n < jobs || n > 2*jobs {
		t.Errorf("%d connections for %d jobs at once, five times", n, jobs)
	}
}

// posting2 is posting to a server that speaks HTTP/2.
func posting2(t *testing.T, o HTTPOptions, f http.HandlerFunc) *httpHandler {
	t.Helper()
	s := httptest.NewUnstartedServer(f)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	tr := handlerconf.Transport(0)
	tr.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	tr.TLSClientConfig.NextProtos = nil
	t.Cleanup(tr.CloseIdleConnections)
	o.URL, o.Transport = s.URL, tr
	h := harness.Must(newHTTP(o))(t)
	return h
}

func TestHTTP2(t *testing.T) {
	proto := make(chan string, 1)
	h := posting2(t, HTTPOptions{}, func(_ http.ResponseWriter, r *http.Request) { proto <- r.Proto })
	harness.OK(t, h.Perform(t.Context(), job(sample)))
	if p := soon(t, proto, "request"); p != "HTTP/2.0" {
		t.Error(p)
	}
}

// closing is a server that answers the first request of each connection and ends the connection
// on the next one, in one of several ways, without a byte of an answer.
type closing struct {
	net.Listener
	end      func(c *net.TCPConn, r *bufio.Reader)
	answered atomic.Int32
	dropped  atomic.Int32
	keys     sync.Map // Idempotency-Key of all answered requests
}

func (s *closing) serve(c *net.TCPConn) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	q, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, q.Body)
	s.keys.Store(q.Header.Get("Idempotency-Key"), true)
	s.answered.Add(1)
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
		return
	}
	if _, err := r.Peek(1); err != nil { // the client has given the connection up
		return
	}
	s.dropped.Add(1)
	s.end(c, r)
}

// A server that closes a kept connection on a request costs no job a failure.
func TestHTTPConnectionThatTheServerHasClosed(t *testing.T) {
	read := func(_ *net.TCPConn, r *bufio.Reader) {
		if q, err := http.ReadRequest(r); err == nil {
			_, _ = io.Copy(io.Discard, q.Body)
		}
	}
	for name, end := range map[string]func(*net.TCPConn, *bufio.Reader){
		"after the request": read,
		"unread":            func(*net.TCPConn, *bufio.Reader) {},
		"reset": func(c *net.TCPConn, r *bufio.Reader) {
			read(c, r)
			_ = c.SetLinger(0)
		},
		"reset, unread": func(c *net.TCPConn, _ *bufio.Reader) { _ = c.SetLinger(0) },
	} {
		for _, size := range []int{10, 4 << 20} {
			t.Run(fmt.Sprintf("%s, %d bytes", name, size), func(t *testing.T) {
				l := harness.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
				s := &closing{Listener: l, end: end}
				defer func() { _ = l.Close() }()
				go func() {
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						go s.serve(c.(*net.TCPConn))
					}
				}()
				tr := handlerconf.Transport(0)
				defer tr.CloseIdleConnections()
				h := harness.Must(newHTTP(HTTPOptions{URL: "http://" + l.Addr().String(), Transport: tr}))(t)
				const jobs = 20
				for i := range jobs {
					raw := fmt.Sprintf(`{"class":"A","args":[%q],"jid":"j%d"}`, strings.Repeat("x", size), i)
					if i == jobs-1 {
						raw = strings.Replace(raw, `"jid":"j19"`, `"jid":""`, 1)
					}
					if err := h.Perform(t.Context(), job(raw)); err != nil {
						t.Fatalf("job %d: %v", i, err)
					}
				}
				if s.answered.Load() != jobs || s.dropped.Load() == 0 {
					t.Errorf("%d answered, %d dropped, want %d and more than 0", s.answered.Load(), s.dropped.Load(), jobs)
				}
				if _, ok := s.keys.Load("j7"); !ok {
					t.Error("no Idempotency-Key j7")
				}
			})
		}
	}
}
