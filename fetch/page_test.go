package fetch

import (
	"bytes"
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
	"github.com/troupehq/troupe/internal/parcel"
	"github.com/troupehq/troupe/internal/redistest"
)

// farBytes of one reply come within the time-out: half a page, not a whole one.
const farBytes = 700 << 10

// farConn is a far connection: a reply comes so slowly that a large one is not
// through in time. What is counted is bytes, so that the test does not depend on
// how fast the machine is. It is used by one command at a time, as go-redis does.
type farConn struct {
	net.Conn
	left int // of the reply
}

func (c *farConn) Write(b []byte) (int, error) {
	c.left = farBytes
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

func farDialer(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &farConn{Conn: conn}, nil
}

func farClient(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.Dialer, o.MaxRetries = farDialer, -1
	far := redis.NewClient(o)
	t.Cleanup(func() { _ = far.Close() })
	return far
}

// unbounded lets a Take bring what is too much for its network.
func unbounded(env Env) Env {
	env.Bytes = 1 << 30
	return env
}

// bigJobs pushes 1,000 jobs of 10 KB: 10 MB.
func bigJobs(t *testing.T, rdb redis.Cmdable, queue string) (jobs []string) {
	t.Helper()
	for i := range 1000 {
		job := fmt.Sprint(i, " ", strings.Repeat("x", 10<<10))
		jobs = append(jobs, job)
		if err := rdb.LPush(t.Context(), keys.Queue(queue), job).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return jobs
}

// untilTaken is what a process does whose Take fails.
func untilTaken(t *testing.T, f Fetcher, n int) (units []Unit) {
	t.Helper()
	for failed := 0; ; failed++ {
		units, err := f.Take(t.Context(), n, nil)
		if err == nil {
			if failed == 0 {
				t.Error("the first Take was to fail")
			}
			return units
		}
		if failed == 100 {
			t.Fatalf("the fetcher is stuck: %v", err)
		}
	}
}

// What a call took that is more than the link brings within one time-out comes page by page.
func TestAReplyThatIsTooLargeGetsThrough(t *testing.T) {
	for _, parcels := range []bool{true, false} {
		rdb, url := redistest.New(t)
		f := mustOpen(t, unbounded(testEnv(farClient(t, url), Strict{"b", "a"})))
		if !parcels {
			f.thrift.rest = 1 << 20
		}
		rdb.LPush(t.Context(), "queue:b", "b0")
		jobs := append([]string{"b0"}, bigJobs(t, rdb, "a")...)
		units := untilTaken(t, f, maxTake)
		if got := payloads(units); !slices.Equal(got, jobs) {
			t.Errorf("parcels %v: took %d units, expected %d in their order", parcels, len(got), len(jobs))
		}
		if more := mustTake(t, f, maxTake, units...); len(more) != 0 {
			t.Errorf("parcels %v: %d units more", parcels, len(more))
		}
		if len(f.found) > 0 || len(f.lost) > 0 {
			t.Errorf("parcels %v: after all was found %v of %v is kept", parcels, f.found, f.lost)
		}
		noPlaces(t, rdb)
	}
}

func TestAReplyThatIsTooLargeGetsThroughOnACluster(t *testing.T) {
	rdb, cluster := redistest.NewCluster(t)
	o := *rdb.Options()
	o.Addrs, o.Dialer, o.MaxRedirects = cluster.Addrs(), farDialer, -1
	far := redis.NewClusterClient(&o)
	defer func() { _ = far.Close() }()
	f := member(t, far, "h:2:bb", "a", "b")
	f.env = unbounded(f.env)
	jobs := bigJobs(t, rdb, "a")
	rdb.LPush(t.Context(), keys.Queue("b"), "b0")
	units := untilTaken(t, f, maxTake)
	want := append(slices.Clone(jobs), "b0")
	got := payloads(units)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("took %d units, expected each of %d", len(got), len(want))
	}
	if more := mustTake(t, f, maxTake, units...); len(more) != 0 {
		t.Errorf("%d units more", len(more))
	}
	if left, err := f.Close(t.Context()); left != 0 || err != nil {
		t.Errorf("close: %d left, %v", left, err)
	}
}

// A page whose answer is lost is asked for again, smaller; what came before is not.
func TestALostPageIsAskedForAgain(t *testing.T) {
	rdb, url := redistest.New(t)
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries = -1
	b := &breaker{left: 1 << 30}
	broken := redis.NewClient(o)
	defer func() { _ = broken.Close() }()
	broken.AddHook(b)
	f := mustOpen(t, unbounded(testEnv(broken, Strict{"a"})))
	jobs := bigJobs(t, rdb, "a")
	lose(t, f, rdb)
	sizes := []int{0}
	for len(f.stash) < len(jobs) {
		b.left = 1 // one page comes, the next does not
		if err := f.Renew(t.Context()); err == nil {
			t.Fatal("renewed, with nothing left to break")
		}
		if n := len(f.stash); n == sizes[len(sizes)-1] {
			t.Fatalf("stuck at %d units", n)
		}
		sizes = append(sizes, len(f.stash))
	}
	b.left = 1 << 30
	if got := payloads(mustTake(t, f, maxTake)); !slices.Equal(got, jobs) {
		t.Errorf("took %d units, expected %d; pages ended at %v", len(got), len(jobs), sizes)
	}
}

// A process dies, or is fenced, between two pages: the rescuer has all.
func TestDeathBetweenTwoPages(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, unbounded(testEnv(rdb, Strict{"a"})))
	jobs := bigJobs(t, rdb, "a")
	lose(t, f, rdb)
	if more, err := f.resume(t.Context()); !more || err != nil {
		t.Fatalf("the first page: more %v, %v", more, err)
	}
	expire(t, rdb, f.cur.id)
	mustRescue(t, newRescuer(t, rdb).Rescue)
	if got := list(t, rdb, "a"); !slices.Equal(got, jobs) {
		t.Errorf("%d jobs are in the queue, expected %d in their order", len(got), len(jobs))
	}
	if _, err := f.Take(t.Context(), 1, nil); err == nil {
		t.Error("the fetcher does not know that it was fenced")
	}
	if got := payloads(mustTake(t, f, maxTake)); !slices.Equal(got, jobs) {
		t.Errorf("then it took %d units", len(got))
	}
}

// The page shrinks down to one unit, and grows again.
func TestPagesOfOneUnit(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, unbounded(testEnv(rdb, Strict{"a"})))
	for range 100 {
		f.page.note(context.DeadlineExceeded)
	}
	bigJobs(t, rdb, "a")
	lose(t, f, rdb)
	for want := 1; want < 10; want++ {
		if more, err := f.resume(t.Context()); !more || err != nil {
			t.Fatalf("page %d: more %v, %v", want, more, err)
		}
		if n := len(f.stash); n < want || want < 4 && n > want {
			t.Errorf("%d units after %d pages", n, want)
		}
	}
	if n := len(f.stash); n < 30 {
		t.Errorf("%d units after nine pages", n)
	}
}

// lose makes a Take whose answer does not come.
func lose(t *testing.T, f *reliable, rdb *redis.Client) {
	t.Helper()
	f.calls++
	prefix := receiptPrefix(f.calls)
	args, _ := f.takeArgs(f.cur, prefix, maxTake, 40, parcel.Size, f.wants(maxTake, f.rand), nil, nil)
	if _, err := takeScript.run(t.Context(), rdb, args); err != nil {
		t.Fatal(err)
	}
	f.lost, f.doubt = append(f.lost, lostCall{prefix: prefix}), true
}

// A rescuer that cannot read a batch within its time-out reads less.
func TestARescuerBehindASlowLink(t *testing.T) {
	rdb, url := redistest.New(t)
	f := mustOpen(t, unbounded(testEnv(rdb, Strict{"a"})))
	var jobs []string
	for i := range 100 {
		jobs = append(jobs, fmt.Sprint(i, " ", strings.Repeat("x", 100<<10)))
		rdb.LPush(t.Context(), "queue:a", jobs[i])
	}
	mustTake(t, f, maxTake)
	expire(t, rdb, f.cur.id)
	judged := map[string]bool{}
	r, err := NewRescuer(RescuerConfig{Redis: farClient(t, url), Logger: zerolog.Nop(), Judge: judgeFunc(func(o Orphan) Fate {
		judged[string(o.Unit.Payload)] = true
		return Fate{}
	}), Identity: "host:1:aa"})
	if err != nil {
		t.Fatal(err)
	}
	for failed := 0; ; failed++ {
		if _, err = r.Rescue(t.Context()); err == nil {
			break
		}
		if failed == 100 {
			t.Fatalf("the rescuer is stuck: %v", err)
		}
	}
	if got := list(t, rdb, "a"); !slices.Equal(got, jobs) || len(judged) != len(jobs) {
		t.Errorf("%d jobs are in the queue, %d were judged, expected %d", len(got), len(judged), len(jobs))
	}
	noPlaces(t, rdb)
}

// Of a parcel that a lost call had made, and that Redis has lost a part of, the rest is
// found, and the log says so; one that cannot be opened at all stays, and is logged too.
func TestALostCallOfWhichRedisHasLostAPart(t *testing.T) {
	for name, lost := range map[string]int{"a part": 3, "the list": parcel.Size, "its type": parcel.Size} {
		t.Run(name, func(t *testing.T) {
			rdb, _ := redistest.New(t)
			env := testEnv(rdb, Strict{"a"})
			var log bytes.Buffer
			env.Logger = zerolog.New(&log)
			f := mustOpen(t, env)
			fillQueue(t, rdb, "a", 2*parcel.Size)
			lose(t, f, rdb)
			list := rdb.Keys(t.Context(), "troupe:parcel:*0").Val()[0]
			switch name {
			case "a part":
				rdb.LTrim(t.Context(), list, 3, -1)
			case "the list":
				rdb.Del(t.Context(), list)
			case "its type":
				rdb.Del(t.Context(), list)
				rdb.Set(t.Context(), list, "no list", 0)
			}
			units := mustTake(t, f, maxTake)
			if want := 2*parcel.Size - lost; len(units) != want {
				t.Errorf("%d units, want %d", len(units), want)
			}
			text := log.String()
			if name == "its type" && !strings.Contains(text, "WRONGTYPE") || name != "its type" && !strings.Contains(text, fmt.Sprintf("has lost %d of %d jobs", lost, parcel.Size)) {
				t.Errorf("the log: %q", text)
			}
		})
	}
}
