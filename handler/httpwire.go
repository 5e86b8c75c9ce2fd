package handler

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// NewTransport returns a transport for HTTP handlers. It keeps as many idle
// connections to one server as there are jobs that may run at once; 0 means 100.
//
// It speaks HTTP/2 where the server does, and takes the proxy from HTTP_PROXY,
// HTTPS_PROXY and NO_PROXY, as curl and Ruby do.
func NewTransport(conns int) *http.Transport {
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

// sign returns the value of Troupe-Signature: "t=SECONDS,v1=HEX", where HEX is
// the HMAC-SHA256, with the secret, of SECONDS, a dot and the body. SECONDS is
// the time of this request, so that a receiver can refuse one that somebody has
// recorded and sends again later.
func sign(secret []byte, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return fmt.Sprintf("t=%s,v1=%x", t, mac.Sum(nil))
}

// headerText makes any text one value of a header.
func headerText(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// answerText is what the error of an answer says beside its status.
func answerText(res *http.Response, body []byte) string {
	if to := res.Header.Get("Location"); to != "" && res.StatusCode/100 == 3 {
		return "redirect to " + clipText([]byte(to), 1<<10) + " not followed"
	}
	return clipText(body, tailBytes)
}

// clipText returns the beginning of b, at most n bytes and the last character
// whole, as valid UTF-8 without blanks around.
func clipText(b []byte, n int) string {
	if len(b) > n {
		b = b[:n]
		for i := 0; i < 3 && len(b) > 0 && b[len(b)-1] >= 0x80; i++ {
			last := b[len(b)-1]
			b = b[:len(b)-1]
			if last >= 0xc0 { // where the character began
				break
			}
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(b), "\ufffd"))
}

// CheckURL tells what is expected of a URL that a job cannot be posted to. The
// error never has the URL in it: parts of it may be a credential.
func CheckURL(text string) error {
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

// CheckHeader tells what is expected of a header that cannot be added to a
// request. The error never has the value in it: it may be a credential.
func CheckHeader(name, value string) error {
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
