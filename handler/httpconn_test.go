package handler

import (
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
	h, err := newHTTP(HTTPOptions{URL: s.URL, Transport: tr})
	if err != nil {
		t.Fatal(err)
	}
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
	h, err := newHTTP(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHTTP2(t *testing.T) {
	proto := make(chan string, 1)
	h := posting2(t, HTTPOptions{}, func(_ http.ResponseWriter, r *http.Request) { proto <- r.Proto })
	if err := h.Perform(t.Context(), job(sample)); err != nil {
		t.Fatal(err)
	}
	if p := soon(t, proto, "request"); p != "HTTP/2.0" {
		t.Error(p)
	}
}
