package handler

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/handlerconf"
)

const (
	// bodyTime is how long the body of an answer is read. Its status has decided
	// the job already; the rest is for the error message and so that the
	// connection can be used again.
	bodyTime = 2 * time.Second
	// bodyBytes is how much of it is read; of a longer one the connection goes.
	bodyBytes = 64 << 10
)

// HTTPOptions describe an HTTP handler; URL is required.
type HTTPOptions struct {
	// URL is where the jobs are posted to: http or https, without a fragment. A user
	// and password in it become a header Authorization.
	URL string

	// Header is added to each request and may replace Content-Type,
	// User-Agent and Idempotency-Key; a name that begins with Troupe-, or that
	// belongs to the connection, is refused.
	Header http.Header

	// Secret signs the requests with a header Troupe-Signature; none if empty.
	Secret []byte

	// Timeout bounds one run; 0 means a minute.
	Timeout time.Duration

	// Transport sends the requests; nil means one with HTTP/2, a proxy
	// from the environment and 100 idle connections to a server. Handlers that
	// share one share its connections.
	Transport http.RoundTripper
}

// idempotencyKey is the header by which a server knows a job that it has seen.
const idempotencyKey = "Idempotency-Key"

// httpHandler is what NewHTTP makes.
type httpHandler struct {
	url       *url.URL
	header    http.Header
	host      string // of the header Host, "" for the URL's
	secret    []byte
	timeout   time.Duration
	transport http.RoundTripper

	bodyTime time.Duration
	now      func() time.Time
}

// NewHTTP returns a handler that performs each job by one POST request to o.URL. It
// fails if the URL or a header cannot be sent; no connection is made. The handler is
// safe for concurrent use.
//
// The body is the payload, byte for byte as it stood in Redis, with these
// headers, in whose values all but printable ASCII, and %, is percent-encoded:
//
//	Content-Type     application/json
//	Idempotency-Key  the jid
//	Troupe-Jid       as in the payload
//	Troupe-Class     likewise (the wrapped class of an ActiveJob)
//	Troupe-Queue     the queue the job was fetched from
//	Troupe-Attempt   1 on the first run
//	Troupe-Signature if there is a secret, see sign
//
// Any 2xx status is done. 429 and 503 are retried after Retry-After, see
// retryAfter, any other 4xx sends the job to the dead set. Everything else is an
// *HTTPError and by default a retry: 5xx, no answer, and 3xx. Redirects are not
// followed: it would hand the job and the headers of one server to another, and
// for most of them turn the POST into a GET.
//
// A server may close a kept connection while a request is on its way. If no byte of
// an answer came over it, the request is sent again over another connection: that is
// no failure of the job.
//
// The end of the job's context aborts the request. The server may have done the
// job by then, or when its answer is lost: it must know by the jid whether it
// has seen the job before.
func NewHTTP(o HTTPOptions) (troupe.Handler, error) {
	h, err := newHTTP(o)
	if err != nil {
		return nil, err
	}
	return h, nil
}

func newHTTP(o HTTPOptions) (*httpHandler, error) {
	if err := handlerconf.URL(o.URL); err != nil {
		return nil, fmt.Errorf("url is wrong, expected %w", err)
	}
	if o.Timeout < 0 {
		return nil, fmt.Errorf("timeout is %s, expected 0 or more", o.Timeout)
	}
	h := &httpHandler{
		header: http.Header{"Content-Type": {"application/json"}, "User-Agent": {"troupe"}},
		secret: bytes.Clone(o.Secret), timeout: o.Timeout, transport: o.Transport,
		bodyTime: bodyTime, now: time.Now,
	}
	h.url, _ = url.Parse(o.URL)
	if user := h.url.User; user != nil {
		password, _ := user.Password()
		r := http.Request{Header: h.header}
		r.SetBasicAuth(user.Username(), password)
	}
	for name, values := range o.Header {
		for _, v := range values {
			if err := handlerconf.Header(name, v); err != nil {
				return nil, fmt.Errorf("header %q is wrong, expected %w", name, err)
			}
		}
		if name = http.CanonicalHeaderKey(name); name == "Host" {
			h.host = strings.Join(values, "")
			continue
		}
		h.header[name] = append([]string(nil), values...)
	}
	if h.timeout == 0 {
		h.timeout = handlerconf.HTTPTimeout
	}
	if h.transport == nil {
		h.transport = handlerconf.Transport(0)
	}
	return h, nil
}

// String tells where the jobs go, without what may be a credential.
func (h *httpHandler) String() string { return "POST " + h.url.Scheme + "://" + h.url.Host }

// GoString is String: %#v must not print the secret.
func (h *httpHandler) GoString() string { return h.String() }

// Perform posts p.
func (h *httpHandler) Perform(ctx context.Context, p *troupe.Payload) error {
	ctx, cancel := context.WithTimeoutCause(ctx, h.timeout, troupe.ErrJobTimeout)
	defer cancel()
	res, err := h.send(ctx, p)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return &HTTPError{Host: h.url.Host, Cause: err}
	}
	defer func() { _ = res.Body.Close() }()
	defer time.AfterFunc(h.bodyTime, cancel).Stop()
	body, _ := io.ReadAll(io.LimitReader(res.Body, bodyBytes)) // the status counts, whatever comes of it
	return outcome(res, body, h.now())
}

// send posts p until it has an answer, or an error that is not the end of a kept connection.
func (h *httpHandler) send(ctx context.Context, p *troupe.Payload) (*http.Response, error) {
	for {
		var kept, answered atomic.Bool
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn:              func(c httptrace.GotConnInfo) { kept.Store(c.Reused && !shared(c.Conn)) },
			GotFirstResponseByte: func() { answered.Store(true) },
		})
		// The transport, not a Client: that follows redirects, and puts the URL, of
		// which a part may be a credential, into its errors.
		res, err := h.transport.RoundTrip(h.request(traced, p))
		if err == nil || !kept.Load() || answered.Load() || ctx.Err() != nil {
			return res, err
		}
	}
}

// shared reports whether c carries several requests at once, with HTTP/2: there the end of one is not
// that of the connection, and net/http sends again what the server has not begun.
func shared(c net.Conn) bool {
	t, ok := c.(interface{ ConnectionState() tls.ConnectionState })
	return ok && t.ConnectionState().NegotiatedProtocol == "h2"
}

func (h *httpHandler) request(ctx context.Context, p *troupe.Payload) *http.Request {
	queue, attempt := p.Queue(), p.Failures()+1
	if info, ok := troupe.JobInfoFrom(ctx); ok {
		queue = info.Queue
	}
	body := p.Bytes()
	header := h.header.Clone()
	header.Set("Troupe-Jid", headerText(p.JID()))
	header.Set("Troupe-Class", headerText(p.HandlerClass()))
	header.Set("Troupe-Queue", headerText(queue))
	header.Set("Troupe-Attempt", strconv.Itoa(attempt))
	if jid := headerText(p.JID()); jid != "" && header.Get(idempotencyKey) == "" {
		header.Set(idempotencyKey, jid)
	}
	if len(h.secret) > 0 {
		header.Set("Troupe-Signature", sign(h.secret, h.now(), body))
	}
	r := &http.Request{
		Method: http.MethodPost, URL: h.url, Host: h.host, Header: header,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		// net/http sends again what a connection that the server has just closed did not take.
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
	return r.WithContext(ctx)
}

// outcome is what an answer means for the job.
func outcome(res *http.Response, body []byte, now time.Time) error {
	s := res.StatusCode
	if s >= 200 && s < 300 {
		return nil
	}
	err := &HTTPError{Status: s, Text: answerText(res, body)}
	switch {
	case s == http.StatusTooManyRequests || s == http.StatusServiceUnavailable:
		if d, ok := retryAfter(res.Header, now); ok {
			return troupe.RetryIn(d, err)
		}
	case s >= 400 && s < 500:
		return troupe.Kill(err)
	}
	return err
}

const (
	leastRetryAfter = time.Second
	// mostRetryAfter is the longest Retry-After that is kept to; a longer one
	// counts as this.
	mostRetryAfter = 24 * time.Hour
)

// retryAfter reads a header Retry-After: seconds or a date, from a second (what
// has passed counts as this) to mostRetryAfter; false if there is none that can
// be read. A date is taken as a span from the answer's own header Date, so that
// it does not matter whether the two clocks agree. Like any wait before a retry
// it gets Sidekiq's jitter on top, and is counted.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	text := strings.TrimSpace(h.Get("Retry-After"))
	d := time.Duration(0)
	if n, err := strconv.ParseUint(text, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		d = time.Duration(min(n, uint64(mostRetryAfter/time.Second))) * time.Second
	} else {
		at, err := http.ParseTime(text)
		if err != nil {
			return 0, false
		}
		if sent, err := http.ParseTime(h.Get("Date")); err == nil {
			now = sent
		}
		d = at.Sub(now)
	}
	return min(max(d, leastRetryAfter), mostRetryAfter), true
}
