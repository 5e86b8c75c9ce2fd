package handler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/handlerconf"
	"github.com/troupehq/troupe/internal/jobctx"
	"github.com/troupehq/troupe/internal/test/harness"
)

const sample = `{"class":"ThumbnailJob","args":[1,"é <>",1e3],"jid":"b4a577edbccf1d805744efa9","queue":"old","retry_count":2}`

const patience = 30 * time.Second

// soon receives from c, or ends the test after a long time.
func soon[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("not within %s: %s", patience, what)
	}
	panic("unreachable")
}

// posting returns a handler that posts to a server which answers by f.
func posting(t *testing.T, o HTTPOptions, f http.HandlerFunc) *httpHandler {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	o.URL = strings.Replace(s.URL, "http://", "http://"+o.URL, 1) + "/jobs?a=1"
	tr := handlerconf.Transport(0)
	t.Cleanup(tr.CloseIdleConnections)
	o.Transport = tr
	h := harness.Must(newHTTP(o))(t)
	return h
}

// What a handler's error can ask for.
const (
	done  = "done"
	retry = "retry"
	dead  = "dead"
	later = "later"
)

// action is what a handler's error asks for.
func action(err error) string {
	o, ok := errors.AsType[*troupe.OutcomeError](err)
	switch {
	case err == nil:
		return done
	case !ok:
		return retry
	case o.Kill:
		return dead
	}
	return later
}

// What a server gets: the very bytes, and a fixed set of headers.
func TestHTTPRequest(t *testing.T) {
	const raw = `{"class":"Sidekiq::ActiveJob::Wrapper","wrapped":"Webhook::Größe%` + `\n` + `","args":[1,"é <>",1e3, 123456789012345678901234567890],"jid":"b4a577edbccf1d805744efa9","queue":"old","retry_count":2,"x":{"b":1,"a":2}}`
	type request struct {
		Method, Path, Body string
		Length             int64
		Header             map[string]string
	}
	got := make(chan request, 1)
	h := posting(t, HTTPOptions{
		URL:    "bob:p%40ss@",
		Header: http.Header{"x-key": {"v"}, "Content-Type": {"application/vnd.job+json"}},
	}, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		header := map[string]string{}
		for k := range r.Header {
			header[k] = r.Header.Get(k)
		}
		got <- request{r.Method, r.RequestURI, string(b), r.ContentLength, header}
	})
	ctx := context.WithValue(t.Context(), jobctx.Info{}, &troupe.JobInfo{Queue: "critical"})
	harness.OK(t, h.Perform(ctx, job(raw)))
	want := request{"POST", "/jobs?a=1", raw, int64(len(raw)), map[string]string{
		"Content-Length": fmt.Sprint(len(raw)), "Content-Type": "application/vnd.job+json", "User-Agent": "troupe",
		"Authorization": "Basic Ym9iOnBAc3M=", "X-Key": "v",
		"Troupe-Jid": "b4a577edbccf1d805744efa9", "Troupe-Class": "Webhook::Gr%C3%B6%C3%9Fe%25%0A",
		"Troupe-Queue": "critical", "Troupe-Attempt": "4", "Idempotency-Key": "b4a577edbccf1d805744efa9",
	}}
	if diff := cmp.Diff(want, soon(t, got, "request")); diff != "" {
		t.Error(diff)
	}
}

func TestHTTPHostHeader(t *testing.T) {
	got := make(chan string, 1)
	h := posting(t, HTTPOptions{Header: http.Header{"Host": {"jobs.internal"}}}, func(_ http.ResponseWriter, r *http.Request) {
		got <- r.Host
	})
	if err := h.Perform(t.Context(), job(sample)); err != nil || soon(t, got, "request") != "jobs.internal" {
		t.Error(err)
	}
}

func TestHTTPOutcomes(t *testing.T) {
	tests := []struct {
		status  int
		header  string // of the answer: "Name: value"
		body    string
		want    string
		message string
	}{
		{200, "", "ignored", done, ""},
		{201, "", "", done, ""},
		{202, "Retry-After: 5", "", done, ""},
		{204, "", "", done, ""},
		{299, "", "", done, ""},
		{300, "", "", retry, "300 Multiple Choices"},
		{301, "Location: https://elsewhere/x", "moved", retry, "301 Moved Permanently: redirect to https://elsewhere/x not followed"},
		{304, "", "", retry, "304 Not Modified"},
		{307, "Location: /jobs", "", retry, "307 Temporary Redirect: redirect to /jobs not followed"},
		{400, "", " bad\xffargs \n", dead, "400 Bad Request: bad\ufffdargs"},
		{401, "Retry-After: 5", "", dead, "401 Unauthorized"},
		{404, "", "", dead, "404 Not Found"},
		{408, "", "", dead, "408 Request Timeout"},
		{410, "", "gone", dead, "410 Gone: gone"},
		{422, "", `{"error":"amount"}`, dead, `422 Unprocessable Entity: {"error":"amount"}`},
		{499, "", "", dead, "499"},
		{429, "", "slow down", retry, "429 Too Many Requests: slow down"},
		{429, "Retry-After: 120", "slow down", later, "429 Too Many Requests: slow down"},
		{429, "Retry-After: soon", "", retry, "429 Too Many Requests"},
		{503, "", "", retry, "503 Service Unavailable"},
		{503, "Retry-After: 120", "", later, "503 Service Unavailable"},
		{500, "Retry-After: 120", "boom", retry, "500 Internal Server Error: boom"},
		{502, "", "", retry, "502 Bad Gateway"},
		{599, "", "", retry, "599"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.status, " ", tt.header), func(t *testing.T) {
			h := posting(t, HTTPOptions{}, func(w http.ResponseWriter, r *http.Request) {
				if name, value, ok := strings.Cut(tt.header, ": "); ok {
					w.Header().Set(name, value)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			err := h.Perform(t.Context(), job(sample))
			if got := action(err); got != tt.want {
				t.Fatalf("action %s (%v), want %s", got, err, tt.want)
			}
			if err == nil {
				return
			}
			if err.Error() != tt.message || troupe.ErrorClass(err) != fmt.Sprint("HTTP ", tt.status) {
				t.Errorf("error %q, class %q", err, troupe.ErrorClass(err))
			}
			if o, ok := errors.AsType[*troupe.OutcomeError](err); ok && tt.want == later && o.Delay != 2*time.Minute {
				t.Errorf("retry in %s", o.Delay)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	const date = "Sat, 21 Nov 2026 11:00:00 GMT" // the server's clock is an hour behind
	tests := []struct {
		after, date string
		want        time.Duration // 0: not readable
	}{
		{"120", "", 2 * time.Minute},
		{" 7 ", "", 7 * time.Second},
		{"0", "", time.Second},
		{"86400", "", 24 * time.Hour},
		{"86401", "", 24 * time.Hour},
		{"99999999999999999999999999", "", 24 * time.Hour},
		{"18446744073709551615", "", 24 * time.Hour},
		{"Sat, 21 Nov 2026 12:05:00 GMT", "", 5 * time.Minute},
		{"Saturday, 21-Nov-26 12:05:00 GMT", "", 5 * time.Minute},
		{"Sat Nov 21 12:05:00 2026", "", 5 * time.Minute},
		{"Sat, 21 Nov 2026 11:05:00 GMT", date, 5 * time.Minute},
		{"Sat, 21 Nov 2026 11:05:00 GMT", "yesterday", time.Second},
		{"Sat, 21 Nov 2026 10:00:00 GMT", date, time.Second},
		{"Wed, 01 Jan 2031 00:00:00 GMT", date, 24 * time.Hour},
		{"120", date, 2 * time.Minute},
		{"", date, 0},
		{"-5", "", 0},
		{"1.5", "", 0},
		{"soon", "", 0},
	}
	for _, tt := range tests {
		h := http.Header{}
		if tt.after != "" {
			h.Set("Retry-After", tt.after)
		}
		if tt.date != "" {
			h.Set("Date", tt.date)
		}
		if d, ok := retryAfter(h, now); d != tt.want || ok != (tt.want > 0) {
			t.Errorf("%q, Date %q: %s, %v", tt.after, tt.date, d, ok)
		}
	}
}

// A redirect would hand the job, and the key, to somebody else.
func TestHTTPRedirectsAreNotFollowed(t *testing.T) {
	var others atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { others.Add(1) }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		h := posting(t, HTTPOptions{Header: http.Header{"X-Key": {"k"}}}, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, status)
		})
		if err := h.Perform(t.Context(), job(sample)); action(err) != retry || !strings.Contains(err.Error(), "not followed") {
			t.Errorf("%d: %v", status, err)
		}
	}
	if n := others.Load(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestHTTPNoAnswer(t *testing.T) {
	l := harness.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr := l.Addr().String()
	_ = l.Close()
	h, err := newHTTP(HTTPOptions{URL: "http://bob:secret@" + addr + "/hook/secret?key=secret"})
	harness.OK(t, err)
	err = h.Perform(t.Context(), job(sample))
	if action(err) != retry || troupe.ErrorClass(err) != "no answer" || !strings.HasPrefix(err.Error(), addr+": ") {
		t.Errorf("%v, class %q", err, troupe.ErrorClass(err))
	}
	if _, ok := errors.AsType[*net.OpError](err); !ok {
		t.Errorf("no net.OpError in %v", err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("a credential in the error: %v", err)
	}
	// a connection that ends in the middle
	h = posting(t, HTTPOptions{}, func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
	if err := h.Perform(t.Context(), job(sample)); action(err) != retry || troupe.ErrorClass(err) != "no answer" {
		t.Errorf("%v, class %q", err, troupe.ErrorClass(err))
	}
}

// The end of the job's context, or of its time, aborts the request: the server
// sees it go.
func TestHTTPIsAborted(t *testing.T) {
	for i, want := range []error{troupe.ErrShutdown, troupe.ErrFenced, context.Canceled, troupe.ErrJobTimeout, troupe.ErrShutdown, troupe.ErrJobTimeout} {
		t.Run(fmt.Sprint(want, " ", i), func(t *testing.T) {
			for timeout := 50 * time.Millisecond; ; timeout *= 10 {
				begun, gone := make(chan struct{}), make(chan struct{})
				o := HTTPOptions{Timeout: time.Hour}
				if errors.Is(want, troupe.ErrJobTimeout) {
					o.Timeout = timeout
				}
				server := posting
				if i >= 4 {
					server = posting2
				}
				h := server(t, o, func(_ http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body) // else the server does not look at the connection
					close(begun)
					<-r.Context().Done()
					close(gone)
				})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				done := make(chan error, 1)
				go func() { done <- h.Perform(ctx, job(sample)) }()
				select {
				case <-begun:
				case err := <-done: // its time was over first, on a busy machine: once more with a longer one
					if !errors.Is(err, want) || timeout > time.Second {
						t.Fatalf("the request has not begun: %v", err)
					}
					continue
				case <-time.After(patience):
					t.Fatalf("the request has not begun within %s", patience)
				}
				if !errors.Is(want, troupe.ErrJobTimeout) {
					cancel(want)
				}
				err := soon(t, done, "return")
				soon(t, gone, "end of the request")
				if !errors.Is(err, want) || action(err) != retry || troupe.ErrorClass(err) != "no answer" {
					t.Errorf("%v, class %q", err, troupe.ErrorClass(err))
				}
				return
			}
		})
	}
}

func TestHTTPDoesNotSendACancelledJob(t *testing.T) {
	var n atomic.Int32
	h := posting(t, HTTPOptions{}, func(http.ResponseWriter, *http.Request) { n.Add(1) })
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(troupe.ErrShutdown)
	if err := h.Perform(ctx, job(sample)); !errors.Is(err, troupe.ErrShutdown) || n.Load() > 0 {
		t.Errorf("%v, %d requests", err, n.Load())
	}
}

// The status is the answer: a body without end holds up nothing and changes nothing.
func TestHTTPBodyWithoutEnd(t *testing.T) {
	for status, want := range map[int]string{200: done, 500: retry, 400: dead} {
		for _, hangs := range []bool{true, false} {
			h := posting(t, HTTPOptions{Timeout: time.Hour}, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(status)
				_, _ = io.WriteString(w, "begin ")
				for !hangs && r.Context().Err() == nil {
					_, _ = io.WriteString(w, strings.Repeat("é", 1000))
				}
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			if hangs {
				h.bodyTime = 20 * time.Millisecond
			} else {
				h.bodyTime = time.Hour // the bytes are what ends it
			}
			done := make(chan error, 1)
			go func() { done <- h.Perform(t.Context(), job(sample)) }()
			err := soon(t, done, "return")
			if action(err) != want {
				t.Fatalf("%d: action %s", status, action(err))
			}
			if err == nil {
				continue
			}
			e, _ := errors.AsType[*HTTPError](err)
			if !strings.HasPrefix(e.Text, "begin") || len(e.Text) > tailBytes || strings.Contains(e.Text, "\ufffd") {
				t.Errorf("%d: %d bytes of text: %.20s…", status, len(e.Text), e.Text)
			}
			if !hangs && len(e.Text) < tailBytes-4 {
				t.Errorf("%d: %d bytes of text", status, len(e.Text))
			}
		}
	}
}

func TestNewHTTPRefuses(t *testing.T) {
	for _, tt := range []struct {
		o    HTTPOptions
		want string
	}{
		{HTTPOptions{}, "begins with http://"},
		{HTTPOptions{URL: "secret"}, "begins with http://"},
		{HTTPOptions{URL: "ftp://u:secret@h/"}, "begins with http://"},
		{HTTPOptions{URL: "HTTPS:///secret"}, "with a host"},
		{HTTPOptions{URL: "http://:80/secret"}, "with a host"},
		{HTTPOptions{URL: "http:secret"}, "with a host"},
		{HTTPOptions{URL: "http://u:sec/ret@h/"}, "the port is not a number"},
		{HTTPOptions{URL: "http://h:99999/secret"}, "port"},
		{HTTPOptions{URL: "http://h:/secret"}, "port"},
		{HTTPOptions{URL: "http://h/%zzsecret"}, "two hex digits"},
		{HTTPOptions{URL: "http://h/\nsecret"}, "control character"},
		{HTTPOptions{URL: "http://h/#secret"}, "#fragment"},
		{HTTPOptions{URL: "http://h", Timeout: -1}, "0 or more"},
		{HTTPOptions{URL: "http://h", Header: http.Header{"X Y": {"secret"}}}, "letters"},
		{HTTPOptions{URL: "http://h", Header: http.Header{"": {"secret"}}}, "letters"},
		{HTTPOptions{URL: "http://h", Header: http.Header{"X": {"secret\r\nY: z"}}}, "line breaks"},
		{HTTPOptions{URL: "http://h", Header: http.Header{"troupe-jid": {"secret"}}}, "Troupe-"},
		{HTTPOptions{URL: "http://h", Header: http.Header{"content-length": {"secret"}}}, "not set itself"},
	} {
		_, err := newHTTP(tt.o)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", tt.o, err)
		}
	}
	for _, url := range []string{"http://h", "HTTPS://h:8080/p?q=%20", "http://[::1]:80/", "https://bücher.example/"} {
		if _, err := newHTTP(HTTPOptions{URL: url}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// However a handler is printed, nothing that may be a credential is.
func TestHTTPPrintsNoCredential(t *testing.T) {
	h, err := newHTTP(HTTPOptions{
		URL: "https://bob:hunter2@hooks.internal/hunter2?key=hunter2", Secret: []byte("hunter2"),
		Header: http.Header{"X-Key": {"hunter2"}},
	})
	harness.OK(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, h); got != "POST https://hooks.internal" {
			t.Errorf("%s: %s", verb, got)
		}
	}
}
