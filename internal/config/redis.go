package config

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/troupehq/troupe/internal/redisconn"
)

// redisForeign are options of Ruby's Redis client that a map redis may have
// beside url. Others, like namespace or db, tell where the jobs are: a daemon
// that ignored them would look at the wrong place.
var redisForeign = []string{
	"size", "pool_size", "pool_timeout", "pool_name", "network_timeout", "timeout", "connect_timeout", "read_timeout",
	"write_timeout", "reconnect_attempts", "reconnect_delay", "reconnect_delay_max", "driver", "ssl", "ssl_params",
	"id", "inherit_socket", "logger", "custom", "protocol",
}

// redis takes a URL, or a map with one as old files have it.
func (p *parse) redis(n *node, field string) string {
	switch n.kind {
	case null:
		return ""
	case mapping:
		url := ""
		for _, e := range n.entries {
			if e.key == "url" {
				url = p.redis(e.value, field+".url")
				continue
			}
			if e.key == "cluster" {
				url = p.cluster(e.value, field+".cluster")
				continue
			}
			if slices.Contains(redisForeign, e.key) {
				p.warn(e.line, field+"."+e.key, "it is for Ruby's client; options of this one are parameters of the URL, like ?pool_size=20")
				continue
			}
			p.unknown(e.line, field+"."+e.key, e.key, []string{"url", "cluster"})
		}
		return url
	case list:
		p.bad(n, field, "a Redis URL")
		return ""
	case scalar:
	}
	if f, ok := redisFault(n.text, field); !ok {
		p.fault(n.line, f.Field, f.Value, f.Want)
		return ""
	}
	return n.text
}

// cluster takes the addresses of some of a cluster's nodes.
func (p *parse) cluster(n *node, field string) string {
	addrs := p.strings(n, field)
	if n.kind == null || len(addrs) == 0 {
		p.bad(n, field, "addresses of nodes, host:port")
		return ""
	}
	url := redisconn.ClusterURL(addrs)
	for _, addr := range addrs {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" || strings.ContainsAny(addr, "@/?&") {
			p.bad(n, field, "addresses of nodes, host:port; credentials and TLS need a URL: rediss+cluster://user:password@host:port?addr=host:port")
			return ""
		}
	}
	if f, ok := redisFault(url, field); !ok {
		p.fault(n.line, f.Field, f.Value, f.Want)
		return ""
	}
	return url
}

// redisFault checks a URL.
func redisFault(url, field string) (f Fault, ok bool) {
	err := redisconn.CheckURL(url)
	if err == nil {
		return f, true
	}
	reason := err.Error()
	if e, ok := errors.AsType[*redisconn.URLError](err); ok {
		reason = e.Reason
	}
	return Fault{
		Field: field, Value: strconv.Quote(redisconn.Mask(url)),
		Want: "redis://[user:password@]host[:port][/db], rediss://…, unix:///path or redis+cluster://host:port (" + reason + ")",
	}, false
}
