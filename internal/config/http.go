package config

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/handler"
	"github.com/troupehq/troupe/internal/handlerconf"
	"github.com/troupehq/troupe/internal/words"
)

// httpEntry is the value of a handler's key http.
type httpEntry struct {
	URL     secretText
	Headers []httpHeader // in the order of the file
	Secret  secretText
}

// httpHeader is one header of a handler's requests.
type httpHeader struct {
	Name  string
	Value secretText
}

const wantHTTP = "a URL, or a map with url, headers and secret"

// httpSettings reads the value of each key of http.
var httpSettings = readers[httpEntry]{
	"url": func(p *parse, h *httpEntry, n *node, field string) { h.URL = p.url(n, field) },
	"headers": func(p *parse, h *httpEntry, n *node, field string) {
		h.Headers = p.headers(n, field)
	},
	"secret": func(p *parse, h *httpEntry, n *node, field string) {
		if h.Secret = p.text(n, field); n.kind == null {
			p.bad(n, field, wantText+"; without one leave the key out")
		}
	},
}

// http reads a URL, or a map with one; nil where it is unusable.
func (p *parse) http(n *node, field string) *httpEntry {
	h := &httpEntry{}
	switch n.kind {
	case scalar:
		h.URL = p.url(n, field)
		return h
	case mapping:
	default:
		p.bad(n, field, wantHTTP)
		return nil
	}
	given := false
	for _, e := range n.entries {
		at := field + "." + e.key
		read := httpSettings[e.key]
		if e.key == "timeout" {
			p.fault(e.line, at, "in http", "it beside http: the timeout is the handler's")
			continue
		}
		if read == nil {
			given = given || words.Nearest(e.key, []string{"url"}) != ""
			p.unknown(e.line, at, e.key, httpSettings.keys())
			continue
		}
		given = given || e.key == "url"
		read(p, h, e.value, at)
	}
	if !given {
		p.fault(n.line, field, "without url", "a URL to post the jobs to")
	}
	return h
}

func (p *parse) url(n *node, field string) secretText {
	t := p.text(n, field)
	if n.kind == null {
		p.bad(n, field, "a URL to post the jobs to")
	} else if t.literal() {
		p.checkURL(t, field)
	}
	return t
}

// checkURL is asked as well when the value of t has been fetched.
func (p *parse) checkURL(t secretText, field string) {
	if err := handlerconf.URL(t.Value); err != nil {
		p.fault(t.line, field, strconv.Quote(clip(t.shownURL())), err.Error())
	}
}

func (p *parse) headers(n *node, field string) []httpHeader {
	switch n.kind {
	case null:
		return nil
	case mapping:
	default:
		p.bad(n, field, "a map from names to values")
		return nil
	}
	var out []httpHeader
	seen := map[string]bool{}
	for _, e := range n.entries {
		at := field + "." + e.key
		h := httpHeader{Name: e.key, Value: p.text(e.value, at)}
		if e.value.kind == null {
			p.bad(e.value, at, wantText)
		}
		// The name alone is at fault, or it will be the fetched value.
		if err := handlerconf.Header(h.Name, h.Value.Value); err != nil {
			p.fault(e.line, at, "no header that can be added", err.Error())
		}
		if name := http.CanonicalHeaderKey(h.Name); seen[name] {
			p.fault(e.line, at, "given twice", "it once (upper and lower case are the same)")
		} else {
			seen[name] = true
		}
		out = append(out, h)
	}
	return out
}

// checkHeader is asked when the value of h has been fetched.
func (p *parse) checkHeader(h httpHeader, field string) {
	if err := handlerconf.Header(h.Name, h.Value.Value); err != nil {
		p.fault(h.Value.line, field, "no header that can be added", err.Error())
	}
}

// options returns what the handler is made from.
func (h *httpEntry) options(timeout time.Duration, transport http.RoundTripper) handler.HTTPOptions {
	o := handler.HTTPOptions{
		URL: h.URL.Value, Header: http.Header{}, Secret: []byte(h.Secret.Value), Timeout: timeout, Transport: transport,
	}
	for _, header := range h.Headers {
		o.Header.Set(header.Name, header.Value.Value)
	}
	return o
}

// shownURL is the URL t fit for people to see. In one that is not in the file
// itself any part may be the credential.
func (t secretText) shownURL() string {
	if t.Env != "" || t.File != "" {
		return t.String()
	}
	return maskURL(t.Value)
}

// maskURL returns text, a URL perhaps, without user, password, query and
// fragment, in which credentials are.
func maskURL(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		if strings.ContainsAny(text, "@?#") {
			return "***"
		}
		return text
	}
	rest, _, query := strings.Cut(rest, "?")
	rest, _, fragment := strings.Cut(rest, "#")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = "***" + rest[i:]
	}
	if query || fragment {
		rest += "?***"
	}
	return scheme + "://" + rest
}
