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

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/runs"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// early has one digit in everything that may be padded; late has two.
var (
	early = time.Date(2026, 2, 2, 21, 5, 59, 0, time.FixedZone("west", -7*3600)) // 2026-02-03 04:05:59 UTC
	late  = time.Date(2026, 11, 21, 13, 37, 0, 0, time.UTC)
)

const both = Dialect7 | Dialect8

// slot counts runs as the slot of a daemon does.
type slot struct {
	mu  sync.Mutex
	all map[string]runs.Totals
}

// newMetrics makes the Metrics of a daemon with one slot.
func newMetrics(d Dialects) (*Metrics, *slot) {
	s := &slot{all: map[string]runs.Totals{}}
	return NewMetrics(id, d, func() map[string]runs.Totals {
		s.mu.Lock()
		defer s.mu.Unlock()
		return maps.Clone(s.all)
	}), s
}

func (s *slot) count(class string, o job.Outcome, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.all[class]
	t.Count(o, false, took)
	s.all[class] = t
}

func (s *slot) timed(class string, took time.Duration) { s.count(class, job.Done, took) }

func (s *slot) failed(class string) { s.count(class, job.Error, time.Hour) }

func mustMeasure(t *testing.T, m *Metrics, rdb redis.UniversalClient, now time.Time) {
	t.Helper()
	harness.OK(t, m.Flush(t.Context(), rdb, now))
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
	count := func(s *slot) {
		const charge = "Billing::Charge"
		s.timed(charge, 12*time.Millisecond)                   // bucket 0
		s.count(charge, job.Interrupted, 250*time.Millisecond) // bucket 7
		s.timed(charge, 2499*time.Millisecond)                 // bucket 12
		s.count(charge, job.Panic, time.Hour)
		s.all["Idle"] = runs.Totals{}
		s.count("Parked", job.Parked, time.Hour)
		s.failed("Broken")
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
			m, s := newMetrics(tt.dialects)
			count(s)
			mustMeasure(t, m, rdb, tt.at)
			expectAll(t, rdb, tt.want)
		})
	}
}

func TestMetricsOfOneMinuteAddUp(t *testing.T) {
	rdb, _ := redistest.New(t)
	m, s := newMetrics(Dialect7)
	for range 3 {
		s.timed("A", 20*time.Millisecond)
		s.failed("A")
		mustMeasure(t, m, rdb, late)
	}
	mustMeasure(t, m, rdb, late) // nothing new
	expectAll(t, rdb, map[string]string{
		"j|20261121|13:37": "A|f=3 A|ms=60 A|p=6 8h0m0s",
		"A-21-13:37":       "00000003 8h0m0s",
	})
}

func TestPartsOfAMillisecondAreNotLost(t *testing.T) {
	rdb, _ := redistest.New(t)
	m, s := newMetrics(Dialect7)
	for range 5 { // 0.9 ms in each minute
		for range 3 {
			s.timed("Quick", 300*time.Microsecond)
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
	m, s := newMetrics(Dialect8)
	for range 70_000 {
		s.timed("A", time.Hour)
	}
	mustMeasure(t, m, rdb, late)
	s.timed("A", time.Hour)
	mustMeasure(t, m, rdb, late)
	harness.Equal(t, "histogram", rdb.Get(t.Context(), "h|A-21-13:37").Val(), strings.Repeat("\x00", 50)+"\xff\xff")
}

func TestAClassFromAPayloadIsCountedToo(t *testing.T) {
	rdb, _ := redistest.New(t)
	m, s := newMetrics(Dialect7)
	s.failed("Wrapper")
	for range 2 {
		m.CountAs("Mail", job.Error, time.Hour)
		m.CountAs("Mail", job.Done, time.Millisecond)
		mustMeasure(t, m, rdb, late)
	}
	if hash := rdb.HGetAll(t.Context(), "j|20261121|13:37").Val(); hash["Mail|p"] != "4" || hash["Mail|f"] != "2" || hash["Mail|ms"] != "2" {
		t.Errorf("%v", hash)
	}
	harness.Equal(t, "classes are remembered for ever", len(m.named), 0)
}

func TestMetricsThatAreOffOrEmptyDoNotTouchRedis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		t.Error("dialed")
		return nil, io.EOF
	}})
	defer func() { _ = rdb.Close() }()
	off, s := newMetrics(0)
	s.timed("A", time.Second)
	off.CountAs("B", job.Error, time.Second)
	mustMeasure(t, off, rdb, late)
	on, s := newMetrics(both)
	s.all["A"] = runs.Totals{}
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
			m, s := newMetrics(both)
			failures := 0
			for range 6 {
				s.timed("A", 25*time.Millisecond)
				s.failed("A")
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
	o := harness.Must(redis.ParseURL(url))(t)
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	c.AddHook(hook)
	return c
}

func TestABatchOfMetricsKeepsItsMinute(t *testing.T) {
	rdb, url := redistest.New(t)
	lossy := lossyClient(t, url, &loseReply{after: 1})
	m, s := newMetrics(Dialect7)
	s.failed("A")
	if err := m.Flush(t.Context(), lossy, late); err == nil {
		t.Fatal("no error")
	}
	s.failed("A")
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
	m, s := newMetrics(both)
	for i, wantNews := range []bool{true, false} {
		s.timed("A", time.Millisecond)
		err := m.Flush(ctx, rdb, late)
		refused, ok := errors.AsType[*RefusedError](err)
		if ok != wantNews || ok && !strings.Contains(refused.Error(), "WRONGTYPE") || !ok && err != nil {
			t.Errorf("flush %d: %v", i, err)
		}
	}
	harness.Equal(t, "the key of somebody else ends in", ttl(rdb, "A-21-13:37"), -1)
	rdb.Del(ctx, "j|261121|13:37", "A-21-13:37")
	s.timed("A", time.Millisecond)
	mustMeasure(t, m, rdb, late)
	expectAll(t, rdb, map[string]string{
		"j|20261121|13:37": "A|ms=3 A|p=3 8h0m0s", "j|261121|13:3": "A|ms=3 A|p=3 72h0m0s", "h|A-21-13:37": "0003 8h0m0s",
		"j|261121|13:37": "A|ms=1 A|p=1 8h0m0s", "A-21-13:37": "0001 8h0m0s", // what was refused is gone
	})
	rdb.Set(ctx, "j|261121|13:3", "x", 0)
	s.failed("A")
	if err := m.Flush(ctx, rdb, late); err == nil {
		t.Error("a new refusal is not news")
	}
}

func TestMetricsWithoutPermission(t *testing.T) {
	s := redistest.Start(t)
	admin := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer func() { _ = admin.Close() }()
	harness.OK(t, admin.Do(t.Context(), "acl", "setuser", "small", "on", ">pw", "~stat:*", "+@all").Err())
	small := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "small", Password: "pw", MaxRetries: -1})
	defer func() { _ = small.Close() }()
	m, a := newMetrics(both)
	a.failed("A")
	if _, ok := errors.AsType[*RefusedError](m.Flush(t.Context(), small, late)); !ok {
		t.Error("not refused")
	}
	a.failed("A")
	mustMeasure(t, m, small, late) // no news
}

func TestMetricsOnAServerWithoutBitFields(t *testing.T) {
	mr := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: mr.Addr(), MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	m, s := newMetrics(both)
	for i := range 3 {
		s.timed("A", 25*time.Millisecond)
		s.failed("A")
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
	m, a := newMetrics(Dialect7)
	a.failed("A")
	mustMeasure(t, m, rdb, late)
	s.Kill()
	a.failed("A")
	err := m.Flush(t.Context(), rdb, late)
	if _, refused := errors.AsType[*RefusedError](err); err == nil || refused {
		t.Fatalf("flushed into a killed server: %v", err)
	}
	a.failed("A")
	harness.OK(t, s.Restart())
	mustMeasure(t, m, rdb, late)
	expectAll(t, rdb, map[string]string{"j|20261121|13:37": "A|f=2 A|p=2 8h0m0s"})
}

func TestCountingGoesOnWhileMetricsAreWritten(t *testing.T) {
	rdb, _ := redistest.New(t)
	m, s := newMetrics(Dialect8)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				s.timed("A", time.Millisecond)
				s.failed("A")
				m.CountAs("B", job.Error, 0)
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
