// Package proxies tells what the browser sent, from the headers of proxies that are listed.
package proxies

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// forwarded are the headers that only a listed proxy may set.
var forwarded = []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Prefix"}

// List are the addresses and networks of proxies.
type List []netip.Prefix

// Undo makes of a request what the browser has sent, as far as a listed proxy tells: the
// address in RemoteAddr, Host, and whether it was over TLS. From anybody else it removes
// what only a proxy may say, with more headers of that kind.
func (l List) Undo(r *http.Request, more ...string) (out *http.Request, secure bool) {
	peer := Address(r.RemoteAddr)
	out, secure = r.Clone(r.Context()), r.TLS != nil
	if !l.has(peer) {
		for _, name := range append(more, forwarded...) {
			out.Header.Del(name)
		}
		return out, secure
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if peer = Address(strings.TrimSpace(hop)); !peer.IsValid() {
			break
		}
		out.RemoteAddr = netip.AddrPortFrom(peer, 0).String()
		if !l.has(peer) {
			break
		}
	}
	if host := lastOf(r.Header, "X-Forwarded-Host"); host != "" {
		out.Host = host
	}
	if proto := lastOf(r.Header, "X-Forwarded-Proto"); proto != "" {
		secure = proto == "https"
	}
	return out, secure
}

func (l List) has(a netip.Addr) bool {
	return slices.ContainsFunc(l, func(p netip.Prefix) bool { return p.Contains(a) })
}

// lastOf is what the nearest proxy has said.
func lastOf(h http.Header, name string) string {
	all := strings.Split(strings.Join(h.Values(name), ","), ",")
	return strings.TrimSpace(all[len(all)-1])
}

// Address is the IP of ADDRESS or ADDRESS:PORT; not valid for anything else.
func Address(text string) netip.Addr {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	a, _ := netip.ParseAddr(strings.Trim(text, "[]"))
	return a.Unmap().WithZone("")
}

// Loopback reports whether a host, HOST or HOST:PORT, is this machine for this machine alone.
func Loopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return strings.EqualFold(name, "localhost") || Address(host).IsLoopback()
}

// Network is what one client has of addresses: of IPv6 the 64 bits that it is given.
func Network(address string) string {
	a := Address(address)
	if !a.Is6() {
		return a.String()
	}
	return netip.PrefixFrom(a, 64).Masked().String()
}

// Parse reads networks and addresses; bad is one that is neither.
func Parse(texts []string) (list List, bad string) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if a, aErr := netip.ParseAddr(text); aErr == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return nil, text
		}
		list = append(list, p.Masked())
	}
	return list, ""
}
