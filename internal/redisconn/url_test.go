package redisconn

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestFromURL(t *testing.T) {
	for _, tt := range []struct {
		url, network, addr, user, password string
		db                                 int
		tls                                bool
	}{
		{"redis://localhost:6379/0", "tcp", "localhost:6379", "", "", 0, false},
		{"redis://cache", "tcp", "cache:6379", "", "", 0, false},
		{"redis://[::1]:7000/12", "tcp", "[::1]:7000", "", "", 12, false},
		{"redis://app:p%40ss%2Fw@h:1/2", "tcp", "h:1", "app", "p@ss/w", 2, false},
		{"rediss://:pw@h:1", "tcp", "h:1", "", "pw", 0, true},
		{"unix:///run/redis.sock?db=4", "unix", "/run/redis.sock", "", "", 4, false},
		{"unix:///run/a@b.sock", "unix", "/run/a@b.sock", "", "", 0, false},
		{"unix://u:pw@/run/redis.sock", "unix", "/run/redis.sock", "u", "pw", 0, false},
	} {
		c, err := FromURL(tt.url, Need{PoolSize: 9, Name: "troupe"})
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		o := c.(*redis.Client).Options()
		_ = c.Close()
		if o.Network != tt.network || o.Addr != tt.addr || o.Username != tt.user || o.Password != tt.password ||
			o.DB != tt.db || (o.TLSConfig != nil) != tt.tls {
			t.Errorf("%s: got %+v", tt.url, o)
		}
		if o.MaxRetries != 0 || o.ReadTimeout < 5*time.Second || o.PoolSize < 9 || !o.ContextTimeoutEnabled || o.ClientName != "troupe" {
			t.Errorf("%s: not the daemon's options: %+v", tt.url, o)
		}
	}
}

func TestFromURLTakesQueryParameters(t *testing.T) {
	c, err := FromURL("redis://h:1/0?dial_timeout=2&pool_size=77&max_retries=5&read_timeout=0&skip_verify=false", Need{})
	if err == nil {
		t.Fatal("skip_verify without TLS was accepted")
	}
	c, err = FromURL("redis://h:1/0?dial_timeout=2&pool_size=77&max_retries=5&read_timeout=0", Need{})
	harness.OK(t, err)
	defer func() { _ = c.Close() }()
	if o := c.(*redis.Client).Options(); o.DialTimeout != 2*time.Second || o.PoolSize != 77 || o.MaxRetries != 0 || o.ReadTimeout <= 0 {
		t.Errorf("options %+v", o)
	}
}

func TestBadURLs(t *testing.T) {
	const secret = "hunter2"
	for url, reason := range map[string]string{
		"":                                      "empty",
		"localhost:6379":                        "write redis://localhost:6379;",
		"localhost":                             "write redis://localhost;",
		"127.0.0.1:6379/3":                      "write redis://127.0.0.1:6379/3;",
		"[::1]:6379":                            "write redis://[::1]:6379;",
		"//localhost:6379":                      "scheme",
		"http://u:" + secret + "@h:1":           "unknown scheme",
		" redis://u:" + secret + "@h:1":         "spaces",
		"redis://u:" + secret + "@h:1/x":        "database number",
		"redis://u:" + secret + "@h:1/-1":       "database number",
		"redis://u:" + secret + "@h:1/0/1":      "more than one part",
		"redis://u:" + secret + "@h:port":       "port is not a number",
		"redis://u:" + secret + "@h:70000":      "between 1 and 65535",
		"redis://u:" + secret + "%zz@h:1":       "percent-encoded",
		"redis://u:/" + secret + "@h:1":         "percent-encoded",
		"redis://:12/" + secret + "@h:1":        "percent-encoded",
		"redis://:12?" + secret + "@h:1":        "percent-encoded",
		"redis://:12#" + secret + "@h:1":        "percent-encoded",
		"redis://:x#" + secret + "@h:1":         "percent-encoded",
		"redis://u:a@b?" + secret + "@h:1":      "percent-encoded",
		"redis://u:" + secret + "\x7f@h:1":      "control character",
		"redis://u:" + secret + " x@h:1":        "percent-encoded",
		"redis://:" + secret:                    "port is not a number",
		"redis://u:" + secret + "@h/0?no=1":     "unexpected option: no",
		"redis://u:" + secret + "@h/0?db=x":     "database number",
		"redis://u:" + secret + "@h/0?db=-2":    "negative",
		"redis://h/0?pool_size=many":            "pool_size",
		"unix://:12/" + secret + "@/run/x.sock": "must begin with /",
		"unix://":                               "missing",
		"unix://run/redis.sock":                 "must begin with /",
	} {
		c, err := FromURL(url, Need{})
		if err == nil {
			_ = c.Close()
			t.Errorf("%q was accepted", url)
			continue
		}
		if _, ok := errors.AsType[*URLError](err); !ok {
			t.Errorf("%q: error of type %T", url, err)
		}
		if !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: error without %q: %v", url, reason, err)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: error shows the password: %v", url, err)
		}
		if CheckURL(url) == nil {
			t.Errorf("%q: CheckURL accepts it", url)
		}
	}
	harness.Check(t, CheckURL(DefaultURL))
}

func TestMask(t *testing.T) {
	for url, want := range map[string]string{
		"redis://localhost:6379/0":     "redis://localhost:6379/0",
		"redis://u:p@h:1/2":            "redis://***@h:1/2",
		"redis://:p@ss@h:1/2?x=secret": "redis://***@h:1/2",
		"redis://h:1/2?x=secret":       "redis://h:1/2",
		"redis://:secret":              "redis://***",
		"u:secret@h":                   "***",
		"u:secret":                     "***",
		"10.0.0.1:6379":                "10.0.0.1:6379",
		"REDISTOGO_URL":                "REDISTOGO_URL",
	} {
		if got := Mask(url); got != want {
			t.Errorf("Mask(%q) = %q, want %q", url, got, want)
		}
	}
}

func FuzzMask(f *testing.F) {
	f.Add("hunter2")
	f.Add("a@b/c?d#e")
	f.Fuzz(func(t *testing.T, password string) {
		if len(password) < 4 || strings.Contains("redis://***@host:6379/0", password) {
			return // too short to tell from the rest
		}
		if got := Mask("redis://user:" + password + "@host:6379/0"); strings.Contains(got, password) {
			t.Errorf("Mask shows %q in %q", password, got)
		}
	})
}

func TestResolveURL(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"nothing set", nil, "redis://localhost:6379/0"},
		{"REDIS_URL", map[string]string{"REDIS_URL": "redis://a"}, "redis://a"},
		{"a provider wins", map[string]string{"REDIS_URL": "redis://a", "REDIS_PROVIDER": "TOGO", "TOGO": "redis://b"}, "redis://b"},
		{"a provider without a value", map[string]string{"REDIS_URL": "redis://a", "REDIS_PROVIDER": "TOGO"}, "redis://a"},
		{"empty counts as unset", map[string]string{"REDIS_URL": "", "REDIS_PROVIDER": ""}, "redis://localhost:6379/0"},
	} {
		got, err := ResolveURL(func(k string) string { return tt.env[k] })
		if err != nil || got != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
	_, err := ResolveURL(func(k string) string {
		return map[string]string{"REDIS_PROVIDER": "redis://u:hunter2@h:1"}[k]
	})
	if err == nil || !strings.Contains(err.Error(), "REDIS_PROVIDER") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a URL in REDIS_PROVIDER: %v", err)
	}
}

func TestFromURLOverAUnixSocket(t *testing.T) {
	s := redistest.Start(t, "--unixsocket", "redis.sock")
	c := harness.Must(FromURL("unix://"+s.Dir+"/redis.sock?db=2", Need{}))(t)
	defer func() { _ = c.Close() }()
	if warnings, err := Check(t.Context(), c); err != nil || len(warnings) != 0 {
		t.Errorf("check: %v, %v", warnings, err)
	}
}
