package proxies

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

// from is a request of an address.
func from(t *testing.T, address string, headers ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://inside/", nil)
	r.RemoteAddr = address
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// The address is the last one that no listed proxy has added.
func TestTheAddressOfTheBrowser(t *testing.T) {
	list, _ := Parse([]string{"10.1.0.0/16"})
	for hops, want := range map[string]string{
		"": "10.1.2.3:4", "192.0.2.9": "192.0.2.9:0", "6.6.6.6, 192.0.2.9, 10.1.9.9": "192.0.2.9:0", "nonsense": "10.1.2.3:4",
		"10.1.0.1": "10.1.0.1:0", "6.6.6.6, nonsense, 10.1.0.1": "10.1.0.1:0", "[2001:db8::1]:99": "[2001:db8::1]:0",
	} {
		if got, _ := list.Undo(from(t, "10.1.2.3:4", "X-Forwarded-For", hops)); got.RemoteAddr != want {
			t.Errorf("%q: %s, expected %s", hops, got.RemoteAddr, want)
		}
	}
}

// What only a listed proxy may say is taken from nobody else, and changes no other request.
func TestOnlyListedProxiesAreHeard(t *testing.T) {
	list, _ := Parse([]string{"10.1.2.3"})
	said := []string{"X-Forwarded-For", "192.0.2.9", "X-Forwarded-Proto", "http, https", "X-Forwarded-Host", "jobs.example", "X-User", "ann", "Accept", "text/html"}
	got, secure := list.Undo(from(t, "10.1.2.3:4", said...), "X-User")
	if !secure || got.Host != "jobs.example" || got.Header.Get("X-User") != "ann" {
		t.Errorf("of a listed one: secure %v, host %s, user %q", secure, got.Host, got.Header.Get("X-User"))
	}
	sent := from(t, "10.1.2.4:4", said...)
	got, secure = list.Undo(sent, "X-User")
	if secure || got.Host != "inside" || got.RemoteAddr != "10.1.2.4:4" || len(got.Header) != 1 {
		t.Errorf("of another one: secure %v, host %s, address %s, headers %v", secure, got.Host, got.RemoteAddr, got.Header)
	}
	if sent.Header.Get("X-User") != "ann" {
		t.Error("the request of the caller was changed")
	}
}

func TestAddresses(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST:80": true, "127.0.0.1:80": true, "127.9.9.9": true, "[::1]:80": true, "::1": true, "[::1]": true, "::ffff:127.0.0.1": true,
		"": false, ":80": false, "0.0.0.0:80": false, "10.0.0.1": false, "localhost.evil": false, "127.0.0.1.evil:80": false, "[::]:80": false,
	} {
		if Loopback(host) != want {
			t.Errorf("Loopback(%q) is %v", host, !want)
		}
	}
	if Network("[2001:db8::1:2]:3") != "2001:db8::/64" || Network("192.0.2.1:3") != "192.0.2.1" || !Address("[fe80::1%eth0]:1").IsValid() {
		t.Errorf("networks: %s %s %v", Network("[2001:db8::1:2]:3"), Network("192.0.2.1:3"), Address("[fe80::1%eth0]:1"))
	}
	if _, bad := Parse([]string{"10.0.0.1", "nonsense"}); bad != "nonsense" {
		t.Error(bad)
	}
	if list, _ := Parse([]string{"10.9.9.9/8"}); list[0] != netip.MustParsePrefix("10.0.0.0/8") {
		t.Error(list)
	}
}
