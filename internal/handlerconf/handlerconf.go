// Package handlerconf checks configurations of handlers, for the packages handler and config.
package handlerconf

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// HTTPTimeout bounds one request whose handler has no timeout of its own: a server that
// never answers must not hold a processor for ever.
const HTTPTimeout = time.Minute

// Builtins are the names of the built-in handlers, in the order of the manual.
func Builtins() []string { return []string{"noop", "sleep", "fail", "panic", "echo"} }

// Transport returns a transport for HTTP handlers. It keeps as many idle
// connections to one server as there are jobs that may run at once; 0 means 100.
//
// It speaks HTTP/2 where the server does, and takes the proxy from HTTP_PROXY,
// HTTPS_PROXY and NO_PROXY, as curl and Ruby do.
func Transport(conns int) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    cmp.Or(conns, 100), // Go's 2 would open a connection for most jobs
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // what is read of an answer is short
		ForceAttemptHTTP2:      true,
		// One connection of HTTP/2 carries all jobs: when it dies without a word
		// they would all time out on it, again and again.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// URL tells what is expected of a URL that a job cannot be posted to. The
// error never has the URL in it: parts of it may be a credential.
func URL(text string) error {
	u, err := url.Parse(text)
	if e, ok := errors.AsType[*url.Error](err); ok {
		// e.Err may quote a piece of it, too
		return errors.New("a URL like https://host/path" + hint(e.Err))
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("a URL that begins with http:// or https://")
	case u.Hostname() == "":
		return errors.New("a URL with a host, like https://host/path")
	case u.Fragment != "":
		return errors.New("a URL without #fragment: it is never sent")
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return errors.New("a URL whose port is a number from 1 to 65535")
		}
	}
	return nil
}

func hint(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "port"):
		return " (the port is not a number; special characters in a password must be percent-encoded)"
	case strings.Contains(text, "userinfo"):
		return " (special characters in a user or password must be percent-encoded)"
	case strings.Contains(text, "escape"):
		return " (a % must be followed by two hex digits)"
	case strings.Contains(text, "control character"):
		return " (it has a control character in it)"
	}
	return ""
}

// ownHeaders are what the request itself is made of.
var ownHeaders = map[string]bool{
	"Content-Length": true, "Transfer-Encoding": true, "Trailer": true, "Te": true,
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Upgrade": true, "Expect": true,
}

// Header tells what is expected of a header that cannot be added to a
// request. The error never has the value in it: it may be a credential.
func Header(name, value string) error {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case name == "" || strings.ContainsFunc(name, func(r rune) bool { return !isToken(r) }):
		return errors.New("a name of letters, digits and dashes")
	case strings.HasPrefix(canonical, "Troupe-"):
		return errors.New("a name that does not begin with Troupe-: these are the handler's own")
	case ownHeaders[canonical]:
		return errors.New("a header that the request does not set itself")
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return errors.New("a value without line breaks and control characters")
	}
	return nil
}

func isToken(r rune) bool {
	return r > ' ' && r < 0x7f && !strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
}

// Variable tells what is expected of a name that cannot stand in
// handler.ExecOptions.Env.
func Variable(name string) error {
	if name == "" || strings.ContainsAny(name, "=*") || strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}) {
		return errors.New("the name of a variable, without its value, blanks and *")
	}
	return nil
}
