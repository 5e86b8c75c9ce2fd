package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func fromURL(t *testing.T, url string) *redis.Client {
	t.Helper()
	c := harness.Must(FromURL(url, Need{}))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c.(*redis.Client)
}

func TestCheckPasses(t *testing.T) {
	rdb, url := redistest.New(t)
	seed(t, rdb)
	if warnings, err := Check(t.Context(), fromURL(t, url)); err != nil || len(warnings) != 0 {
		t.Errorf("a good Redis: %v, %v", warnings, err)
	}
	mini := miniredis.RunT(t)
	if warnings, err := Check(t.Context(), fromURL(t, "redis://"+mini.Addr())); err != nil || len(warnings) != 0 {
		t.Errorf("an embedded Redis: %v, %v", warnings, err)
	}
}

// seed writes Sidekiq's keys as Sidekiq does.
func seed(t *testing.T, rdb *redis.Client) {
	t.Helper()
	ctx := t.Context()
	rdb.SAdd(ctx, "queues", "default")
	rdb.SAdd(ctx, "processes", "a:1:b")
	for _, set := range []string{"retry", "schedule", "dead"} {
		rdb.ZAdd(ctx, set, redis.Z{Score: 1, Member: "{}"})
	}
	harness.OK(t, rdb.MSet(ctx, "stat:processed", 1, "stat:failed", 0).Err())
}

func TestCheckNamesEveryKeyOfAWrongType(t *testing.T) {
	rdb, url := redistest.New(t)
	seed(t, rdb)
	rdb.Del(t.Context(), "queues", "dead")
	rdb.RPush(t.Context(), "queues", "x")
	rdb.Set(t.Context(), "dead", "x", 0)
	_, err := Check(t.Context(), fromURL(t, url))
	for _, want := range []string{`"queues" is a list, expected a set`, `"dead" is a string, expected a zset`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error without %q: %v", want, err)
		}
	}
	if fault, ok := errors.AsType[*KeyTypeError](err); !ok || fault.Key != "queues" {
		t.Errorf("no KeyTypeError: %v", err)
	}
}

func TestCheckWarnsOfEviction(t *testing.T) {
	s := redistest.Start(t)
	c := fromURL(t, s.URL(0))
	harness.OK(t, c.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	warnings, err := Check(t.Context(), c)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "allkeys-lru") || !strings.Contains(warnings[0], "noeviction") {
		t.Errorf("warnings %q, %v", warnings, err)
	}
}

func TestCheckWithoutLeaveToAsk(t *testing.T) {
	s := redistest.Start(t)
	harness.OK(t, fromURL(t, s.URL(0)).Do(t.Context(), "acl", "setuser", "small", "on", ">pw", "~*", "+@all", "-info", "-type", "-config").Err())
	warnings, err := Check(t.Context(), fromURL(t, "redis://small:pw@"+s.Addr))
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "NOPERM") {
		t.Errorf("warnings %q, %v", warnings, err)
	}
}

// Which rights are missing is a question of its own, but for one that is needed to ask it.
func TestCheckOfAUserWithoutRights(t *testing.T) {
	s := redistest.Start(t)
	harness.OK(t, fromURL(t, s.URL(0)).Do(t.Context(), "acl", "setuser", "small", "on", ">pw").Err())
	if _, err := Check(t.Context(), fromURL(t, "redis://small:pw@"+s.Addr)); err != nil {
		t.Error(err)
	}
	_, err := Check(t.Context(), fromURL(t, "redis://small:pw@"+s.Addr+"/1"))
	if err == nil || !strings.Contains(err.Error(), "does not let its user choose the database: grant it +select") {
		t.Error(err)
	}
}

func TestCheckRefusesAnOldServer(t *testing.T) {
	for version, old := range map[string]bool{
		"5.0.14": true, "6.0.16": true, "3.2": true, "6.2.0": false, "6.2": false, "7.2.4": false, "10.0.1": false, "255.255.255": false, "unstable": false,
	} {
		addr := newServer(t, func(args []string) string {
			switch strings.ToLower(args[0]) {
			case "ping":
				return "+PONG\r\n"
			case "info":
				return bulk("# Server\r\nredis_version:" + version + "\r\nvalkey_version:9.9\r\nmaxmemory_policy:noeviction\r\n")
			case "type":
				return "+none\r\n"
			}
			return "-ERR unknown command\r\n"
		})
		_, err := Check(t.Context(), fromURL(t, "redis://"+addr))
		fault, ok := errors.AsType[*VersionError](err)
		if ok != old {
			t.Errorf("version %s: %v", version, err)
		}
		if ok && (fault.Found != version || !strings.Contains(err.Error(), "6.2 or newer")) {
			t.Errorf("version %s: %v", version, err)
		}
	}
}

func TestCheckOfAPasswordedServer(t *testing.T) {
	s := redistest.Start(t)
	harness.OK(t, fromURL(t, s.URL(0)).ConfigSet(t.Context(), "requirepass", "hunter2").Err())
	if _, err := Check(t.Context(), fromURL(t, "redis://:hunter2@"+s.Addr)); err != nil {
		t.Errorf("right password: %v", err)
	}
	for _, url := range []string{s.URL(0), "redis://:hunter3@" + s.Addr, "redis://nobody:hunter3@" + s.Addr} {
		_, err := Check(t.Context(), fromURL(t, url))
		if Classify(err) != Auth || !strings.Contains(err.Error(), "refuses the login") || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %s %v", Mask(url), Classify(err), err)
		}
	}
}

func TestCheckOfAnUnreachableServer(t *testing.T) {
	for _, url := range []string{"redis://:hunter2@127.0.0.1:1/3", "unix://:hunter2@/nonexistent/redis.sock"} {
		_, err := Check(t.Context(), fromURL(t, url))
		if Classify(err) != Outage || !strings.Contains(err.Error(), "cannot be reached") || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %s %v", Mask(url), Classify(err), err)
		}
	}
}

func TestADeadlineBoundsACommandOnAHungServer(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	addr := newServer(t, func([]string) string { <-release; return "+OK\r\n" })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := Check(ctx, fromURL(t, "redis://"+addr))
	if took := time.Since(start); Classify(err) != Outage || took > 3*time.Second {
		t.Errorf("after %v: %s %v", took, Classify(err), err)
	}
}

func TestAddr(t *testing.T) {
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"a:1", "b:2"}, Password: "hunter2"})
	defer func() { _ = c.Close() }()
	for rdb, want := range map[redis.UniversalClient]string{
		c:                                    "a:1,b:2",
		fromURL(t, "redis://:hunter2@h:1/7"): "h:1/7",
	} {
		harness.Equal(t, "Addr", Addr(rdb), want)
	}
}

func TestCheckOfACertificateThatIsNotTrusted(t *testing.T) {
	server := httptest.NewUnstartedServer(nil) // a listener with a certificate of its own
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Listener.Addr().String(), TLSConfig: &tls.Config{ServerName: "127.0.0.1"}, MaxRetries: -1})
	defer rdb.Close()
	_, err := Check(t.Context(), rdb)
	if err == nil || !strings.Contains(err.Error(), "not trusted") || !strings.Contains(err.Error(), "skip_verify=true") {
		t.Error(err)
	}
}
