package actors_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// served is what a server has counted.
type served struct {
	at                 time.Time
	trips, connections int
	commands           map[string]int // those inside scripts, too
}

func servedBy(t *testing.T, rdb *redis.Client) served {
	t.Helper()
	info := harness.Must(rdb.Info(t.Context(), "stats", "clients", "commandstats").Result())(t)
	u := served{at: time.Now(), commands: map[string]int{}}
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name, command := strings.CutPrefix(key, "cmdstat_"); {
		case command:
			value, _, _ = strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			u.commands[name], _ = strconv.Atoi(value)
		case key == "total_reads_processed":
			u.trips, _ = strconv.Atoi(value)
		case key == "connected_clients":
			u.connections, _ = strconv.Atoi(value)
		}
	}
	return u
}

// What waiting costs is a matter of round trips: a process that is alone makes some
// four a second, of which the leader of the scheduler makes two, one of a fleet one and a
// half: a blocked move and a take each two seconds. Redis carries out some ten commands a second for
// one that is alone, those inside of scripts included. The limits have room for what chance and a loaded machine add.
func TestIdleProcessesMakeFewTrips(t *testing.T) {
	if testing.Short() {
		t.Skip("counts for a minute")
	}
	for n, most := range map[int]struct{ trips, commands float64 }{1: {4.5, 13}, 50: {2.5, 9}} {
		t.Run(fmt.Sprint("processes=", n), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t) // of its own: what is counted is the server's
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
			t.Cleanup(func() { _ = rdb.Close() })
			for range n {
				daemon(t, server.Addr)
			}
			testkit.Await(t, "all run", func() bool { return rdb.SCard(t.Context(), "processes").Val() == int64(n) })
			// The first seconds are not the rule: the line was short, nobody sat, and
			// the pollers have made their first look after 15 s.
			<-time.After(25 * time.Second)
			before := servedBy(t, rdb)
			<-time.After(time.Duration(harness.Effort(15, 40)) * time.Second) // what is counted is a rate
			after := servedBy(t, rdb)
			each := after.at.Sub(before.at).Seconds() * float64(n)
			commands := 0.0
			for name, calls := range after.commands {
				if calls -= before.commands[name]; calls > 0 {
					t.Logf("%-24s %.4f a second", name, float64(calls)/each)
					commands += float64(calls) / each
				}
			}
			got := float64(after.trips-before.trips) / each
			t.Logf("%.3f round trips and %.2f commands a second and process, %.1f connections a process", got, commands, float64(after.connections)/float64(n))
			if got > most.trips || commands > most.commands {
				t.Errorf("%.3f round trips and %.2f commands a second and process, expected %v and %v at most", got, commands, most.trips, most.commands)
			}
			if got := float64(after.connections-2) / float64(n); n > 1 && got > 5 {
				t.Errorf("%.1f connections a process, expected 5 at most", got)
			}
		})
	}
}

// daemon runs one without work until the end of the test.
func daemon(t *testing.T, addr string) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	var jobs troupe.Registry
	troupe.HandleClass(&jobs, "A", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- actors.Run(ctx, actors.Config{
			Redis: rdb, Registry: &jobs, Logger: zerolog.Nop(),
			Capsules: []actors.Capsule{{Concurrency: 1, Queues: fetch.Strict{"default"}}},
		})
	}()
	t.Cleanup(func() {
		cancel()
		harness.Check(t, <-ended)
		_ = rdb.Close()
	})
}

// A rescuer sleeps for long while the renewals of its process's leases look for
// it; they wake it. Each of these orphans but the first two would wait for minutes.
func TestTheRenewalsWakeTheRescuer(t *testing.T) {
	t.Parallel()
	rdb := testkit.Redis(t)
	rdb.SAdd(ctx, "paused", "default") // what is put back stays there
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: new(troupe.Registry), Capsules: onlyDefault, Lease: 12 * time.Second, Logger: zerolog.Nop(),
	})
	for i := range 4 {
		orphan(t, rdb, job("A", fmt.Sprint("j", i), "[]"), false)
		k.Await("it is put back", func() bool { return size(t, rdb, "queue:default") == i+1 })
		// The next orphan is of the same process, so the rescue of this one must be over.
		k.Await("the rescue ends", func() bool {
			return errors.Is(rdb.ZScore(ctx, "troupe:expiries", deadProcess+"#default.1").Err(), redis.Nil)
		})
	}
}
