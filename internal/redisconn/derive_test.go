package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func derived(t *testing.T, rdb redis.UniversalClient, need Need) redis.UniversalClient {
	t.Helper()
	own := harness.Must(Derive(rdb, need))(t)
	t.Cleanup(func() { _ = own.Close() })
	return own
}

func TestDeriveKeepsTheConnectionAndChangesTheRest(t *testing.T) {
	dialer := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("not here") }
	user := redis.NewClient(&redis.Options{
		Addr: "db.internal:7000", DB: 3, Username: "app", Password: "secret", Protocol: 2, ClientName: "web",
		TLSConfig: &tls.Config{ServerName: "db"}, Dialer: dialer,
		ReadTimeout: -1, WriteTimeout: -1, PoolSize: 2, MaxActiveConns: 3, MaxRetries: 8,
	})
	defer func() { _ = user.Close() }()
	got := derived(t, user, Need{PoolSize: 17, Name: "troupe"}).(*redis.Client).Options()

	if got.Addr != "db.internal:7000" || got.DB != 3 || got.Username != "app" || got.Password != "secret" ||
		got.Protocol != 2 || got.TLSConfig.ServerName != "db" {
		t.Errorf("the connection changed: %+v", got)
	}
	if _, err := got.Dialer(t.Context(), "tcp", "x"); err == nil || err.Error() != "not here" {
		t.Errorf("the dialer is not the user's: %v", err)
	}
	if got.MaxRetries != 0 { // -1, normalised
		t.Errorf("MaxRetries = %d, commands would be repeated", got.MaxRetries)
	}
	if want := 2*time.Second + Slack; got.ReadTimeout != want || got.WriteTimeout != Slack || got.PoolTimeout <= want {
		t.Errorf("timeouts read %v write %v pool %v", got.ReadTimeout, got.WriteTimeout, got.PoolTimeout)
	}
	if got.PoolSize != 17 || got.MaxActiveConns != 17 || got.MaxConcurrentDials != 17 {
		t.Errorf("pool %d, active %d, dials %d, want 17", got.PoolSize, got.MaxActiveConns, got.MaxConcurrentDials)
	}
	if !got.ContextTimeoutEnabled || got.ClientName != "troupe" {
		t.Errorf("ContextTimeoutEnabled %v, ClientName %q", got.ContextTimeoutEnabled, got.ClientName)
	}
	if o := user.Options(); o.MaxRetries != 8 || o.PoolSize != 2 || o.ClientName != "web" || o.ContextTimeoutEnabled {
		t.Errorf("the user's options changed: %+v", o)
	}
}

func TestDeriveKeepsWhatIsLarger(t *testing.T) {
	user := redis.NewClient(&redis.Options{Addr: "x:1", ReadTimeout: 20 * time.Second, PoolSize: 50, ClientName: "web"})
	defer func() { _ = user.Close() }()
	got := derived(t, user, Need{PoolSize: 5, Block: 10 * time.Second}).(*redis.Client).Options()
	if got.ReadTimeout != 20*time.Second || got.PoolSize != 50 || got.MaxActiveConns != 0 || got.ClientName != "web" {
		t.Errorf("read %v, pool %d, active %d, name %q", got.ReadTimeout, got.PoolSize, got.MaxActiveConns, got.ClientName)
	}
	longer := derived(t, user, Need{Block: 2 * time.Minute}).(*redis.Client).Options()
	if longer.ReadTimeout <= 2*time.Minute+3*time.Second {
		t.Errorf("read timeout %v does not cover a block of 2 m", longer.ReadTimeout)
	}
}

// With time-outs of an hour, or none, a half-open connection would hold the
// daemon for as long.
func TestDeriveBoundsEveryWait(t *testing.T) {
	for _, d := range []time.Duration{time.Hour, -1, -2} {
		user := redis.NewClient(&redis.Options{Addr: "x:1", ReadTimeout: d, WriteTimeout: d, PoolTimeout: d})
		got := derived(t, user, Need{}).(*redis.Client).Options()
		for what, d := range map[string]time.Duration{"read": got.ReadTimeout, "write": got.WriteTimeout, "pool": got.PoolTimeout} {
			if d <= 0 || d > time.Minute+10*time.Second {
				t.Errorf("%s timeout %v", what, d)
			}
		}
		_ = user.Close()
	}
}

func TestDeriveLeavesTheApplicationsPartsAlone(t *testing.T) {
	user := redis.NewClient(&redis.Options{
		Addr: "x:1", Limiter: failingLimiter{}, ClientSideCacheConfig: &redis.ClientSideCacheConfig{},
	})
	defer func() { _ = user.Close() }()
	got := derived(t, user, Need{}).(*redis.Client).Options()
	if got.Limiter != nil || got.ClientSideCacheConfig != nil || got.ClientSideCache != nil ||
		got.PushNotificationProcessor == user.Options().PushNotificationProcessor {
		t.Errorf("shared with the user's client: %+v", got)
	}
}

type failingLimiter struct{}

func (failingLimiter) Allow() error       { return errors.New("limited") }
func (failingLimiter) ReportResult(error) {}

func TestDeriveOfACluster(t *testing.T) {
	user := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"a:1", "b:2"}, ReadOnly: true, MaxRedirects: 5, Password: "p"})
	defer func() { _ = user.Close() }()
	got := derived(t, user, Need{PoolSize: 40, Name: "troupe"}).(*redis.ClusterClient).Options()
	if strings.Join(got.Addrs, " ") != "a:1 b:2" || got.Password != "p" || got.PoolSize != 40 || got.ClientName != "troupe" {
		t.Errorf("options %+v", got)
	}
	if got.MaxRedirects != 0 || got.MaxRetries != -1 || got.ReadOnly || !got.ContextTimeoutEnabled {
		t.Errorf("redirects %d, retries %d, read only %v", got.MaxRedirects, got.MaxRetries, got.ReadOnly)
	}
}

// wrapper is what a tracing library may hand out.
type wrapper struct{ redis.UniversalClient }

func TestDeriveRefusesWhatItCannotRead(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "x:1"}})
	defer func() { _ = ring.Close() }()
	for name, rdb := range map[string]redis.UniversalClient{
		"*redis.Ring": ring, "redisconn.wrapper": wrapper{ring}, "nil": nil,
		"nil *redis.Client": (*redis.Client)(nil), "nil *redis.ClusterClient": (*redis.ClusterClient)(nil),
	} {
		own, err := Derive(rdb, Need{})
		if err == nil || own != nil {
			t.Fatalf("%s: derived", name)
		}
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error does not name the type: %v", name, err)
		}
		if unreadable, ok := errors.AsType[*UnreadableError](err); ok && !strings.Contains(unreadable.Error(), "redis.NewClient(options)") {
			t.Errorf("%s: error does not say what to do: %v", name, err)
		}
	}
}

func TestClosingTheDerivedClientLeavesTheUsers(t *testing.T) {
	user, _ := redistest.New(t)
	own := harness.Must(Derive(user, Need{Name: "troupe-test"}))(t)
	harness.OK(t, own.Set(t.Context(), "k", "v", 0).Err())
	list, err := own.ClientList(t.Context()).Result()
	if err != nil || !strings.Contains(list, "name=troupe-test") {
		t.Errorf("CLIENT LIST without the name (%v): %s", err, list)
	}
	harness.OK(t, own.Close())
	if got, err := user.Get(t.Context(), "k").Result(); err != nil || got != "v" {
		t.Errorf("the user's client after Close: %q, %v", got, err)
	}
}

func TestDeriveOfASentinelsClientUsesItsDialer(t *testing.T) {
	_, url := redistest.New(t)
	addr, _, _ := strings.Cut(strings.TrimPrefix(url, "redis://"), "/")
	sentinel := newServer(t, func(args []string) string {
		if strings.ToLower(args[0]) == "sentinel" && strings.ToLower(args[1]) == "get-master-addr-by-name" {
			host, port, _ := net.SplitHostPort(addr)
			return array(bulk(host), bulk(port))
		}
		if strings.ToLower(args[0]) == "sentinel" {
			return array() // no other sentinels, no replicas
		}
		return "+OK\r\n"
	})
	user := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{sentinel}, DB: 1})
	defer func() { _ = user.Close() }()
	own := derived(t, user, Need{})
	if got, err := own.Ping(t.Context()).Result(); err != nil || got != "PONG" {
		t.Errorf("ping through sentinel: %q, %v", got, err)
	}
}

func TestIdleConnectionsAreFewUnlessTheUserHasSaid(t *testing.T) {
	for name, c := range map[string]struct {
		user redis.Options
		want int
	}{
		"nothing said":       {redis.Options{}, 3},
		"a limit":            {redis.Options{MaxIdleConns: 20}, 20},
		"some always opened": {redis.Options{MinIdleConns: 7, Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }}, 7},
	} {
		user := redis.NewClient(&c.user)
		harness.Equal(t, name+": idle connections", derived(t, user, Need{Idle: 3}).(*redis.Client).Options().MaxIdleConns, c.want)
		harness.Equal(t, name+": idle connections without a need", derived(t, user, Need{}).(*redis.Client).Options().MaxIdleConns, c.user.MaxIdleConns)
		if got := derived(t, user, Need{}).(*redis.Client).Options().PipelinePoolSize; got >= 0 {
			t.Errorf("%s: pipelines have %d connections of their own", name, got)
		}
		_ = user.Close()
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer func() { _ = cluster.Close() }()
	harness.Equal(t, "cluster: idle connections", derived(t, cluster, Need{Idle: 3}).(*redis.ClusterClient).Options().MaxIdleConns, 3)
}

// What a burst has opened is closed again while few commands come, one after the
// other; what they need stays.
func TestConnectionsThatAreNotNeededAreClosed(t *testing.T) {
	server := redistest.Start(t)
	user := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer func() { _ = user.Close() }()
	const rest = 300 * time.Millisecond
	own := derived(t, user, Need{Idle: 3, Rest: rest}).(*redis.Client)
	var held []*redis.Conn
	for range 3 {
		c := own.Conn()
		harness.OK(t, c.Ping(t.Context()).Err())
		held = append(held, c)
	}
	for _, c := range held {
		_ = c.Close()
	}
	if n := own.PoolStats().TotalConns; n != 3 {
		t.Fatalf("%d connections after a burst of 3", n)
	}
	tick, deadline := time.NewTicker(rest*2/3), time.After(30*time.Second)
	defer tick.Stop()
	for own.PoolStats().TotalConns != 1 {
		select {
		case <-tick.C:
			harness.OK(t, own.Ping(t.Context()).Err())
		case <-deadline:
			t.Fatalf("%d connections for one command at a time", own.PoolStats().TotalConns)
		}
	}
	for name, o := range map[string]redis.Options{"a limit": {MaxIdleConns: 20}, "a shorter rest": {ConnMaxIdleTime: time.Millisecond}} {
		theirs := redis.NewClient(&o)
		got, said := derived(t, theirs, Need{Idle: 3, Rest: rest}).(*redis.Client).Options(), theirs.Options()
		harness.Equal(t, name+": connections rest for", got.ConnMaxIdleTime, said.ConnMaxIdleTime)
		_ = theirs.Close()
	}
}
