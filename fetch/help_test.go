package fetch

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/script"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// What several tests of this package use.

// fillQueue pushes jobs 0..n-1, 0 the oldest.
func fillQueue(tb testing.TB, rdb redis.Cmdable, queue string, n int) {
	tb.Helper()
	for some := range slices.Chunk(upTo(n), 1000) {
		harness.OK(tb, rdb.LPush(context.Background(), keys.Queue(queue), anys(some)...).Err())
	}
}

func upTo(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

func payloads(units []Unit) (out []string) {
	for _, u := range units {
		out = append(out, string(u.Payload))
	}
	return out
}

// inProgress is what the lists hold that an index names, the oldest claim first and the
// oldest job of each first.
func inProgress(tb testing.TB, rdb redis.Cmdable, p *index) (jobs []string) {
	tb.Helper()
	ctx := context.Background()
	named := rdb.HKeys(ctx, p.key).Val()
	slices.SortFunc(named, keys.CompareFields)
	for _, field := range named {
		if field == "!" {
			continue
		}
		list := rdb.LRange(ctx, p.slot.List(p.in.id, field), 0, -1).Val()
		slices.Reverse(list)
		jobs = append(jobs, list...)
	}
	return jobs
}

// noClaims checks that nothing is in progress anywhere, named or not.
func noClaims(tb testing.TB, rdb redis.Cmdable) {
	tb.Helper()
	ctx := context.Background()
	for _, key := range rdb.Keys(ctx, "troupe:claim:*").Val() {
		if rdb.Type(ctx, key).Val() == "list" {
			tb.Errorf("left: %s, which holds %.200q", key, rdb.LRange(ctx, key, 0, -1).Val())
		}
	}
	for _, key := range rdb.Keys(ctx, "troupe:inprogress:*").Val() {
		for field := range rdb.HGetAll(ctx, key).Val() {
			if field != "!" && !keys.IsWaiting(field) {
				tb.Errorf("left: %s names %s", key, field)
			}
		}
	}
}

// copied is every key below some prefixes, to be put back later: what an older snapshot of
// Redis holds.
type copied map[string]string

func copyOf(tb testing.TB, rdb redis.Cmdable, patterns ...string) copied {
	tb.Helper()
	ctx := context.Background()
	c := make(copied)
	for _, pattern := range patterns {
		for _, key := range rdb.Keys(ctx, pattern).Val() {
			dump := harness.Must(rdb.Dump(ctx, key).Result())(tb)
			c[key] = dump
		}
	}
	return c
}

// fallBack has Redis hold what it held then, and nothing else of these patterns.
func (c copied) fallBack(tb testing.TB, rdb redis.Cmdable, patterns ...string) {
	tb.Helper()
	ctx := context.Background()
	for _, pattern := range patterns {
		for _, key := range rdb.Keys(ctx, pattern).Val() {
			rdb.Del(ctx, key)
		}
	}
	for key, dump := range c {
		harness.OK(tb, rdb.Restore(ctx, key, 0, dump).Err())
	}
}

// known loads all scripts, so that none is answered with NOSCRIPT.
func known(tb testing.TB, rdb redis.Scripter) {
	tb.Helper()
	for _, s := range []*script.Script{takeScript, settleScript, restoreScript, tooLargeScript, leaveScript} {
		harness.OK(tb, s.Load(context.Background(), rdb))
	}
}

// hooked is a second client of the same database.
func hooked(tb testing.TB, rdb *redis.Client, hook redis.Hook) *redis.Client {
	tb.Helper()
	o := *rdb.Options()
	o.MaxRetries = -1
	client := redis.NewClient(&o)
	client.AddHook(hook)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// farConn is a far connection: a reply comes so slowly that a large one is not through
// in time. What is counted is bytes, so that the test does not depend on how fast the
// machine is. It is used by one command at a time, as go-redis does.
type farConn struct {
	net.Conn
	bytes, left int // of a reply
}

func (c *farConn) Write(b []byte) (int, error) {
	c.left = c.bytes
	return c.Conn.Write(b)
}

func (c *farConn) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// farDialer dials connections that carry so many bytes of a reply within the time-out.
func farDialer(bytes int) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &farConn{Conn: conn, bytes: bytes}, nil
	}
}

func farClient(tb testing.TB, rdb *redis.Client, bytes int) *redis.Client {
	tb.Helper()
	o := *rdb.Options()
	o.Dialer, o.MaxRetries, o.DialerRetries = farDialer(bytes), -1, 1
	far := redis.NewClient(&o)
	tb.Cleanup(func() { _ = far.Close() })
	return far
}

// member opens a fetcher on a cluster.
func member(t *testing.T, rdb *redis.ClusterClient, identity string, queues ...string) *fetcher {
	t.Helper()
	env := testEnv(rdb, Strict(queues))
	env.Identity = identity
	f := mustOpen(t, env)
	t.Cleanup(func() { _, _ = f.Close(context.Background()) })
	return f
}

// lapse is what time does to a lease on a cluster.
func lapse(t *testing.T, rdb *redis.ClusterClient, id string) {
	t.Helper()
	c := keys.CommonOf(id, true)
	rdb.Del(t.Context(), c.Lease)
	harness.OK(t, rdb.ZAdd(t.Context(), c.Expiries, redis.Z{Score: 1, Member: id}).Err())
}

// popped is a list, the next to be popped first.
func popped(t *testing.T, rdb redis.Cmdable, key string) []string {
	t.Helper()
	out := rdb.LRange(t.Context(), key, 0, -1).Val()
	slices.Reverse(out)
	return out
}

func testRescuer(t *testing.T, rdb redis.UniversalClient, change ...func(*rescue.Config)) *rescue.Rescuer {
	t.Helper()
	cfg := rescue.Config{Redis: rdb, Logger: zerolog.Nop()}
	for _, c := range change {
		c(&cfg)
	}
	r := harness.Must(rescue.New(cfg))(t)
	return r
}

// ownServer is a server of the test's own.
func ownServer(t *testing.T, args ...string) (*redis.Client, *redistest.Server) {
	t.Helper()
	server := redistest.Start(t, args...)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, server
}

// settleAll settles and wants every move done.
func settleAll(t *testing.T, f Fetcher, moves ...Move) {
	t.Helper()
	results := harness.Must(f.Settle(t.Context(), moves))(t)
	for i, result := range results {
		if result != Moved {
			t.Errorf("move %d, %s of %.40q: result %d", i, moves[i].To, moves[i].Unit.Payload, result)
		}
	}
}

// hashOf is what a script is called in EVALSHA.
func hashOf(name string) string {
	for hash, known := range script.Names() {
		if known == "fetch."+name || known == "rescue."+name || known == name {
			return hash
		}
	}
	panic("no script " + name)
}

// calls is how often a command was carried out, as INFO commandstats says.
func calls(info, command string) (n int) {
	_, rest, ok := strings.Cut(info, "cmdstat_"+command+":calls=")
	if ok {
		_, _ = fmt.Sscan(strings.SplitN(rest, ",", 2)[0], &n)
	}
	return n
}
