package beat

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/redistest"
)

// early has one digit in everything that may be padded; late has two.
var (
	early = time.Date(2026, 2, 2, 21, 5, 59, 0, time.FixedZone("west", -7*3600)) // 2026-02-03 04:05:59 UTC
	late  = time.Date(2026, 11, 21, 13, 37, 0, 0, time.UTC)
)

const both = Dialect7 | Dialect8

func mustMeasure(t *testing.T, m *Metrics, rdb redis.UniversalClient, now time.Time) {
	t.Helper()
	if err := m.Flush(t.Context(), rdb, now); err != nil {
		t.Fatal(err)
	}
}

// everything is what stands in a database: hashes as they are, strings in hex,
// and with each key its TTL.
func everything(t *testing.T, rdb *redis.Client) map[string]string {
	t.Helper()
	ctx, all := t.Context(), map[string]string{}
	for _, key := range rdb.Keys(ctx, "*").Val() {
		var text string
		if rdb.Type(ctx, key).Val() == "hash" {
			hash := rdb.HGetAll(ctx, key).Val()
			for _, field := range slices.Sorted(maps.Keys(hash)) {
				text += field + "=" + hash[field] + " "
			}
		} else {
			text = hex.EncodeToString([]byte(rdb.Get(ctx, key).Val())) + " "
		}
		all[key] = text + ttl(rdb, key).String()
	}
	return all
}

func expectAll(t *testing.T, rdb *redis.Client, want map[string]string) {
	t.Helper()
	got := everything(t, rdb)
	for key := range got {
		if strings.HasPrefix(key, "troupe:") {
			delete(got, key)
		}
	}
	for key, text := range want {
		if got[key] != text {
			t.Errorf("%s\n got %s\nwant %s", key, got[key], text)
		}
		delete(got, key)
	}
	if len(got) > 0 {
		t.Errorf("keys too many: %v", got)
	}
}

// The keys, fields, bits and TTLs below are written by hand, from how Sidekiq 7
// and 8 write and ask for them.
func TestMetricsAreWrittenUnderTheKeysOf7And8(t *testing.T) {
	count := func(m *Metrics) {
		charge := m.Runs("Billing::Charge")
		charge.Timed(12 * time.Millisecond)   // bucket 0
		charge.Timed(250 * time.Millisecond)  // bucket 7
		charge.Timed(2499 * time.Millisecond) // bucket 12
		charge.Failed()
		m.Runs("Idle")
		m.Runs("Broken").Failed()
	}
	const (
		fields = "Billing::Charge|f=1 Billing::Charge|ms=2761 Billing::Charge|p=4 Broken|f=1 Broken|p=1 "
		bits   = "0001000000000000000000000000000100000000000000000001 "
		hours8 = "8h0m0s"
		days3  = "72h0m0s"
	)
	for name, tt := range map[string]struct {
		dialects Dialects
		at       time.Time
		want     map[string]string
	}{
		"7, one digit": {Dialect7, early, map[string]string{
			"j|20260203|4:5":          fields + hours8,
			"Billing::Charge-03-04:5": bits + hours8,
		}},
		"8, one digit": {Dialect8, early, map[string]string{
			"j|260203|4:05":           fields + hours8,
			"j|260203|4:0":            fields + days3,
			"h|Billing::Charge-3-4:5": bits + hours8,
		}},
		"both, two digits": {both, late, map[string]string{
			"j|20261121|13:37":           fields + hours8,
			"Billing::Charge-21-13:37":   bits + hours8,
			"j|261121|13:37":             fields + hours8,
			"j|261121|13:3":              fields + days3,
			"h|Billing::Charge-21-13:37": bits + hours8,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rdb, _ := redistest.New(t)
			m := NewMetrics(id, tt.dialects)
			count(m)
			mustMeasure(t, m, rdb, tt.at)
			expectAll(t, rdb, tt.want)
		})
	}
}

func TestMetricsOfOneMinuteAddUp(t *testing.T) {
	rdb, _ := redistest.New(t)
	m := NewMetrics(id, Dialect7)
	a, b := m.Runs("A"), m.Runs("A") // two capsules
	for range 3 {
		a.Timed(20 * time.Millisecond)
		b.Failed()
		mustMeasure(t, m, rdb, late)
	}
	mustMeasure(t, m, rdb, late) // nothing new
	expectAll(t, rdb, map[string]string{
		"j|20261121|13:37": "A|f=3 A|ms=60 A|p=6 8h0m0s",
		"A-21-13:37":       "00000003 8h0m0s",
	})
}

func TestTheBucketIsTheFirstWhoseLimitIsAbove(t *testing.T) {
	for ms, want := range map[float64]int{
		0: 0, 19: 0, 19.999: 0, 20: 1, 29: 1, 30: 2, 45: 3, 64: 3, 65: 4, 100: 5, 150: 6, 225: 7, 335: 8, 500: 9, 750: 10, 1100: 11,
		1700: 12, 2500: 13, 3800: 14, 5750: 15, 8500: 16, 13_000: 17, 20_000: 18, 30_000: 19, 45_000: 20, 65_000: 21, 100_000: 22,
		150_000: 23, 225_000: 24, 334_999: 24, 335_000: 25, 1e9: 25,
	} {
		if got := bucket(time.Duration(ms * float64(time.Millisecond))); got != want {
			t.Errorf("%v ms: bucket %d, want %d", ms, got, want)
		}
	}
}

func TestPartsOfAMillisecondAreNotLost(t *testing.T) {
	rdb, _ := redistest.New(t)
	m := NewMetrics(id, Dialect7)
	quick := m.Runs("Quick")
	for range 5 { // 0.9 ms in each minute
		for range 3 {
			quick.Timed(300 * time.Microsecond)
		}
		mustMeasure(t, m, rdb, late)
	}
	hash := rdb.HGetAll(t.Context(), "j|20261121|13:37").Val()
	if hash["Quick|ms"] != "4" || hash["Quick|p"] != "15" {
		t.Errorf("15 runs of 300 µs: %v", hash)
	}
}

func TestAFullHistogramStaysFull(t *testing.T) {
	rdb, _ := redistest.New(t)
	m := NewMetrics(id, Dialect8)
	a := m.Runs("A")
	a.buckets[25].Add(70_000)
	a.Timed(time.Hour)
	mustMeasure(t, m, rdb, late)
	a.Timed(time.Hour)
	mustMeasure(t, m, rdb, late)
	if got := rdb.Get(t.Context(), "h|A-21-13:37").Val(); got != strings.Repeat("\x00", 50)+"\xff\xff" {
		t.Errorf("histogram %x", got)
	}
}

func TestAClassFromAPayloadIsCountedToo(t *testing.T) {
	rdb, _ := redistest.New(t)
	m := NewMetrics(id, Dialect7)
	m.Runs("Wrapper").Failed()
	for range 2 {
		m.CountAs("Mail", (*Runs).Failed)
		m.CountAs("Mail", func(r *Runs) { r.Timed(time.Millisecond) })
		mustMeasure(t, m, rdb, late)
	}
	if hash := rdb.HGetAll(t.Context(), "j|20261121|13:37").Val(); hash["Mail|p"] != "4" || hash["Mail|f"] != "2" || hash["Mail|ms"] != "2" {
		t.Errorf("%v", hash)
	}
	if len(m.named) != 0 {
		t.Errorf("%d classes are remembered for ever", len(m.named))
	}
}

func TestMetricsThatAreOffOrEmptyDoNotTouchRedis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		t.Error("dialed")
		return nil, io.EOF
	}})
	defer func() { _ = rdb.Close() }()
	off := NewMetrics(id, 0)
	off.Runs("A").Timed(time.Second)
	off.Runs("A").Failed()
	off.CountAs("B", (*Runs).Failed)
	mustMeasure(t, off, rdb, late)
	on := NewMetrics(id, both)
	on.Runs("A")
	mustMeasure(t, on, rdb, late)
}

func TestMetricsCountOnceWhateverIsLost(t *testing.T) {
	for name, hook := range map[string]loseReply{
		"the request":         {before: 1},
		"the reply":           {after: 1},
		"the reply, twice":    {after: 2},
		"requests, then more": {before: 2, after: 1},
	} {
		t.Run(name, func(t *testing.T) {
			rdb, url := redistest.New(t)
			lossy := lossyClient(t, url, &hook)
			m := NewMetrics(id, both)
			a := m.Runs("A")
			failures := 0
			for range 6 {
				a.Timed(25 * time.Millisecond)
				a.Failed()
				if m.Flush(t.Context(), lossy, late) != nil {
					failures++
				}
			}
			if failures == 0 {
				t.Fatal("nothing was lost")
			}
			expectAll(t, rdb, map[string]string{
				"j|20261121|13:37": "A|f=6 A|ms=150 A|p=12 8h0m0s", "j|261121|13:37": "A|f=6 A|ms=150 A|p=12 8h0m0s",
				"j|261121|13:3": "A|f=6 A|ms=150 A|p=12 72h0m0s", "A-21-13:37": "00000006 8h0m0s", "h|A-21-13:37": "00000006 8h0m0s",
			})
		})
	}
}

func lossyClient(t *testing.T, url string, hook *loseReply) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	c.AddHook(hook)
	return c
}

func TestABatchOfMetricsKeepsItsMinute(t *testing.T) {
	rdb, url := redistest.New(t)
	lossy := lossyClient(t, url, &loseReply{after: 1})
	m := NewMetrics(id, Dialect7)
	m.Runs("A").Failed()
	if err := m.Flush(t.Context(), lossy, late); err == nil {
		t.Fatal("no error")
	}
	m.Runs("A").Failed()
	mustMeasure(t, m, lossy, late.Add(time.Hour))
	expectAll(t, rdb, map[string]string{
		"j|20261121|13:37": "A|f=1 A|p=1 8h0m0s", "j|20261121|14:37": "A|f=1 A|p=1 8h0m0s",
	})
}

func TestAKeyThatRefusesMetricsDoesNotKeepTheOthers(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	rdb.RPush(ctx, "j|261121|13:37", "not a hash")
	rdb.RPush(ctx, "A-21-13:37", "no bit field")
	m := NewMetrics(id, both)
	a := m.Runs("A")
	for i, wantNews := range []bool{true, false} {
		a.Timed(time.Millisecond)
		err := m.Flush(ctx, rdb, late)
		refused, ok := errors.AsType[*RefusedError](err)
		if ok != wantNews || ok && !strings.Contains(refused.Error(), "WRONGTYPE") || !ok && err != nil {
			t.Errorf("flush %d: %v", i, err)
		}
	}
	if got := ttl(rdb, "A-21-13:37"); got != -1 {
		t.Errorf("the key of somebody else ends in %v", got)
	}
	rdb.Del(ctx, "j|261121|13:37", "A-21-13:37")
	a.Timed(time.Millisecond)
	mustMeasure(t, m, rdb, late)
	expectAll(t, rdb, map[string]string{
		"j|20261121|13:37": "A|ms=3 A|p=3 8h0m0s", "j|261121|13:3": "A|ms=3 A|p=3 72h0m0s", "h|A-21-13:37": "0003 8h0m0s",
		"j|261121|13:37": "A|ms=1 A|p=1 8h0m0s", "A-21-13:37": "0001 8h0m0s", // what was refused is gone
	})
	rdb.Set(ctx, "j|261121|13:3", "x", 0)
	a.Failed()
	if err := m.Flush(ctx, rdb, late); err == nil {
		t.Error("a new refusal is not news")
	}
}

func TestMetricsWithoutPermission(t *testing.T) {
	s := redistest.Start(t)
	admin := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer func() { _ = admin.Close() }()
	if err := admin.Do(t.Context(), "acl", "setuser", "small", "on", ">pw", "~stat:*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	small := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "small", Password: "pw", MaxRetries: -1})
	defer func() { _ = small.Close() }()
	m := NewMetrics(id, both)
	a := m.Runs("A")
	a.Failed()
	if _, ok := errors.AsType[*RefusedError](m.Flush(t.Context(), small, late)); !ok {
		t.Error("not refused")
	}
	a.Failed()
	mustMeasure(t, m, small, late) // no news
}

func TestMetricsOnAServerWithoutBitFields(t *testing.T) {
	mr := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: mr.Addr(), MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	m := NewMetrics(id, both)
	a := m.Runs("A")
	for i := range 3 {
		a.Timed(25 * time.Millisecond)
		a.Failed()
		err := m.Flush(t.Context(), rdb, late)
		if _, refused := errors.AsType[*RefusedError](err); refused != (i == 0) || !refused && err != nil {
			t.Errorf("flush %d: %v", i, err)
		}
	}
	expectAll(t, rdb, map[string]string{
		"j|20261121|13:37": "A|f=3 A|ms=75 A|p=6 8h0m0s",
		"j|261121|13:37":   "A|f=3 A|ms=75 A|p=6 8h0m0s", "j|261121|13:3": "A|f=3 A|ms=75 A|p=6 72h0m0s",
	})
}

func TestMetricsAfterARestartWithoutData(t *testing.T) {
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	m := NewMetrics(id, Dialect7)
	a := m.Runs("A")
	a.Failed()
	mustMeasure(t, m, rdb, late)
	s.Kill()
	a.Failed()
	err := m.Flush(t.Context(), rdb, late)
	if _, refused := errors.AsType[*RefusedError](err); err == nil || refused {
		t.Fatalf("flushed into a killed server: %v", err)
	}
	a.Failed()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	mustMeasure(t, m, rdb, late)
	expectAll(t, rdb, map[string]string{"j|20261121|13:37": "A|f=2 A|p=2 8h0m0s"})
}

func TestCountingGoesOnWhileMetricsAreWritten(t *testing.T) {
	rdb, _ := redistest.New(t)
	m := NewMetrics(id, Dialect8)
	a := m.Runs("A")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				a.Timed(time.Millisecond)
				a.Failed()
				m.CountAs("B", (*Runs).Failed)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		mustMeasure(t, m, rdb, late)
	}
	expectAll(t, rdb, map[string]string{
		"j|261121|13:37": "A|f=8000 A|ms=8000 A|p=16000 B|f=8000 B|p=8000 8h0m0s",
		"j|261121|13:3":  "A|f=8000 A|ms=8000 A|p=16000 B|f=8000 B|p=8000 72h0m0s", "h|A-21-13:37": "1f40 8h0m0s",
	})
}

func TestCountingDoesNotAllocate(t *testing.T) {
	a := NewMetrics(id, both).Runs("A")
	if n := testing.AllocsPerRun(1000, func() { a.Timed(time.Second); a.Failed() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCount(b *testing.B) {
	a := NewMetrics(id, both).Runs("A")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			a.Timed(time.Millisecond)
		}
	})
}
