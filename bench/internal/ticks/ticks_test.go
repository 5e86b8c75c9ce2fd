// Package ticks races schedulers of periodic jobs, troupe's and asynq's, and counts what each tick has pushed.
package ticks

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

var beside = flag.Bool("ticks.beside", false, "race troupe's and asynq's schedulers, and print a table; takes six minutes")

const (
	seconds = 20 // that are counted
	env     = "TICKS_CHILD"
)

// TestMain is also a process with a scheduler of some entries, each due each second.
func TestMain(m *testing.M) {
	var system, addr string
	var entries int
	if n, _ := fmt.Sscan(os.Getenv(env), &system, &addr, &entries); n == 3 {
		if err := map[string]func(string, int) error{"asynq": runAsynq, "troupe": runTroupe}[system](addr, entries); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func runAsynq(addr string, entries int) error {
	s := asynq.NewScheduler(asynq.RedisClientOpt{Addr: addr}, &asynq.SchedulerOpts{LogLevel: asynq.ErrorLevel})
	for i := range entries {
		if _, err := s.Register("@every 1s", asynq.NewTask("tick", []byte(fmt.Sprintf("entry=%d;", i)))); err != nil {
			return err
		}
	}
	return s.Run()
}

func runTroupe(addr string, entries int) error {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	c := actors.Config{Redis: rdb, Registry: new(troupe.Registry), Queues: actors.Strict{"nothing"}, Concurrency: 1, PeriodicTag: "ticks"}
	for i := range entries {
		c.Periodic = append(c.Periodic, troupe.Periodic{Name: strconv.Itoa(i), Cron: "* * * * * * UTC", Class: "Tick", Args: []any{i}, Queue: "sink", Missed: troupe.MissedAll})
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return errors.Join(actors.Run(ctx, c), rdb.Close())
}

// pushedTicks counts the jobs of each tick: its entry and its second.
func pushedTicks(t *testing.T, rdb *redis.Client, system string) map[[2]int64]int {
	t.Helper()
	count, ctx := map[[2]int64]int{}, t.Context()
	if system == "troupe" {
		for _, raw := range harness.Must(rdb.LRange(ctx, keys.Queue("sink"), 0, -1).Result())(t) {
			p := harness.Must(troupe.ParsePayload([]byte(raw)))(t)
			var args []int64
			harness.OK(t, troupe.DecodeArgs(p.Args(), &args))
			text, _ := p.String("troupe_tick")
			count[[2]int64{args[0], harness.Must(time.Parse(time.RFC3339, text))(t).Unix()}]++
		}
		return count
	}
	// a task of asynq does not know its tick: it is the second in which it was pushed
	entry := regexp.MustCompile(`entry=(\d+);`)
	for tasks := rdb.Scan(ctx, 0, "asynq:{default}:t:*", 1000).Iterator(); tasks.Next(ctx); {
		v := harness.Must(rdb.HMGet(ctx, tasks.Val(), "msg", "pending_since").Result())(t)
		nanos := harness.Must(strconv.ParseInt(fmt.Sprint(v[1]), 10, 64))(t)
		n := harness.Must(strconv.ParseInt(entry.FindStringSubmatch(fmt.Sprint(v[0]))[1], 10, 64))(t)
		count[[2]int64{n, nanos / 1e9}]++
	}
	return count
}

// One and two schedulers, unharmed, killed, and with a thousand entries. What asynq pushes is in the table and no
// failure of this project; troupe pushes each tick once.
func TestTicks(t *testing.T) {
	if !*beside {
		t.Skip("go test -v -ticks.beside runs it")
	}
	table := "| | schedulers | entries | | ticks | jobs | ticks without a job | with more than one |\n|---|---|---|---|---|---|---|---|\n"
	for _, c := range []struct {
		processes, entries int
		kill               bool // the first one after 5 s, and start another 5 s later
	}{{1, 20, false}, {2, 20, false}, {1, 20, true}, {2, 20, true}, {1, 1000, false}, {2, 1000, false}} {
		for _, system := range []string{"troupe", "asynq"} {
			server := redistest.Start(t)
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
			start := func() *chaos.Process {
				return chaos.Launch(t, system, exec.CommandContext(context.Background(), os.Args[0]), fmt.Sprintf("%s=%s %s %d", env, system, server.Addr, c.entries))
			}
			var all []*chaos.Process
			for range c.processes {
				all = append(all, start())
			}
			testkit.Await(t, "each entry has pushed", func() bool {
				n := rdb.LLen(t.Context(), keys.Queue("sink")).Val() + rdb.LLen(t.Context(), "asynq:{default}:pending").Val()
				return n >= int64(c.entries)
			})
			from := time.Now().Truncate(time.Second).Add(2 * time.Second)
			wait := func(at time.Duration) { time.Sleep(time.Until(from.Add(at))) } // real time: what is measured
			what := ""
			if c.kill {
				what = "one killed, 5 s later another started"
				wait(5*time.Second + 500*time.Millisecond)
				first := 0 // of troupe the one that leads
				for i, p := range all {
					if system == "troupe" && regexp.MustCompile(fmt.Sprintf(":%d:", p.PID())).MatchString(rdb.Get(t.Context(), keys.Poller).Val()) {
						first = i
					}
				}
				all[first].Kill()
				wait(10*time.Second + 500*time.Millisecond)
				all = append(all, start())
			}
			wait((seconds + 5) * time.Second) // what is late comes
			for _, p := range all {
				p.Kill()
			}
			count := pushedTicks(t, rdb, system)
			jobs, none, more := 0, 0, 0
			for i := range int64(c.entries) {
				for s := range int64(seconds) {
					n := count[[2]int64{i, from.Unix() + s}]
					jobs += n
					if n == 0 {
						none++
					}
					if n > 1 {
						more++
					}
				}
			}
			table += fmt.Sprintf("| %s | %d | %d | %s | %d | %d | %d | %d |\n", system, c.processes, c.entries, what, c.entries*seconds, jobs, none, more)
			if system == "troupe" && none+more > 0 {
				t.Errorf("troupe, %+v: %d ticks without a job, %d with more than one", c, none, more)
			}
			_ = rdb.Close()
			server.Kill()
		}
	}
	fmt.Print(table)
}
