package sim

import (
	"bytes"
	"context"
	"crypto/sha1"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	cmap "github.com/orcaman/concurrent-map"
	"github.com/redis/go-redis/v9"
	lua "github.com/yuin/gopher-lua"
	"pgregory.net/rapid"

	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/test/harness"
)

var (
	seed    = flag.Int("sim.seed", 1, "first seed")
	seeds   = flag.Int("sim.seeds", harness.Effort(30, 500), "how many seeds")
	replays = flag.Int("sim.replays", 100, "how often a seed is replayed")
	pending = flag.Bool("sim.pending", false, "list in the trace what is pending at each step")
	part    = flag.Bool("sim.part", false, "run the seeds in this process")
	smaller = flag.Bool("sim.shrink", true, "make the first wrong seed smaller; false: run the others, too")
	digests = flag.Bool("sim.digests", false, "print a digest of the trace of each seed")
)

// processors is taken before TestMain leaves one of them.
var processors = runtime.GOMAXPROCS(0)

func TestMain(m *testing.M) {
	flag.Parse()
	redis.SetLogger(quiet{})
	osproc.TurnHook = takeTurn
	osproc.PID = nextPID
	if err := os.Setenv("DYNO", "sim"); err != nil { // the host's name in identities
		panic(err)
	}
	// Made anew for every daemon, and for every run of a script: a fifth of the time
	// goes into what nobody here fills.
	cmap.SHARD_COUNT, lua.RegistrySize, lua.CallStackSize = 1, 384, 32
	// What a step sets off in a process is more than one goroutine now and then.
	// Nothing is to interrupt them: no other thread, no garbage collection.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	os.Exit(m.Run())
}

// quiet is go-redis's log.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// outcome is what a run has shown.
type outcome struct {
	wrong error
	trace string
	steps int
	seen  map[string]int
}

// simulate runs a plan. What comes of it depends on nothing but the plan.
func simulate(t *testing.T, p Plan, b *bug) (o outcome) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, p, b)
		w.run()
		o = outcome{w.wrong, strings.Join(w.trace, "\n"), w.steps, w.seen}
		w.windUp()
	})
	collect()
	return o
}

var runs int

// collect collects the garbage of a number of runs.
func collect() {
	if runs++; runs%3 == 0 {
		runtime.GC()
	}
}

// TestSeeds runs seeds, shared out among as many processes as there are
// processors. The first that is found wrong is made smaller and shown.
func TestSeeds(t *testing.T) {
	if !*part && *seeds > 1 {
		inParts(t)
		return
	}
	steps, seen, began := 0, map[string]int{}, time.Now()
	for s := *seed; s < *seed+*seeds; s++ {
		o := simulate(t, plans.Example(s), nil)
		steps += o.steps
		for what, n := range o.seen {
			seen[what] += n
		}
		if o.wrong != nil {
			t.Logf("seed %d: %v", s, o.wrong)
			if t.Fail(); *smaller {
				t.Run("smaller", func(t *testing.T) { shrink(t, s) }) // rapid takes no test that has failed
				return
			}
		}
		if *digests {
			t.Logf("trace of seed %d: %x", s, sha1.Sum([]byte(o.trace)))
		}
		if *seeds == 1 {
			t.Log(plans.Example(s), o.trace)
		}
	}
	t.Logf("seeds %d to %d, %d steps, %.1f s", *seed, *seed+*seeds-1, steps, time.Since(began).Seconds())
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%8d %s", seen[what], what)
	}
}

// TestSeedsThatWereMisjudged runs seeds that the book once found wrong though they were not: a copy of a job fails where
// another one has ended well; two copies of a job leave a set in one step; the queue of a unique job refuses it; a client takes a lock and
// pushes no job; on a cluster the first step of a retry comes when the job is done, and is due; Ruby runs jobs that a limit has let in; two runs of
// a job share a slot; a rule is listed as one that holds jobs since a key of it is of a wrong type, until the leader looks again; a mover
// has died between the steps of a move, and the job is done; a probe whose process
// has died comes back, and takes no other token;
// Redis has forgotten what a limit is, and learns nothing of its breaker until the next beat;
// a slot is refused to a job that is the probe, and it gets one when others are held; a copy of a job is let in as its parent, which there
// is twice, pushes it again; a batch becomes a job of another one in the step that adds other jobs to that; a batch enters late, when the
// client has nothing to do any more; the queue of a callback refuses it when Redis has fallen back; Ruby runs the first job of a chain again
// whose second one was done before a fallback; a job that has run in a process is called off when the process has it again; probes that Ruby
// takes have a run go on for longer than 30,000 steps, and probes that fail for longer than ten minutes; Ruby runs a job again and again, so that
// its lock is freed; a job is called off whose batch Redis has forgotten.
func TestSeedsThatWereMisjudged(t *testing.T) {
	met := 0
	isWell := func(s int, p Plan) {
		if met++; met%harness.Effort(5, 1) != 0 { // the race detector looks at TestSeeds, too
			return
		}
		if o := simulate(t, p, nil); o.wrong != nil {
			t.Errorf("seed %d: %v\n%s", s, o.wrong, o.trace)
		}
	}
	for _, s := range []int{6130, 7307, 9215, 7542, 12133, 248, 991, 2785, 8385} {
		isWell(s, unbroken.Example(s))
	}
	for _, s := range []int{670, 2517, 7085, 9363, 20962} {
		isWell(s, unbatched.Example(s))
	}
	for _, s := range []int{938, 1391} {
		isWell(s, batchedPlans.Example(s))
	}
	for _, s := range []int{1906, 40838, 41368, 42272, 42947, 43647, 44438, 45723, 48909, 50039, 54183, 63754, 64084, 64539} {
		isWell(s, healthyPlans.Example(s))
	}
}

// inParts runs a part of the seeds in each of several processes: determinism
// wants one processor in each.
func inParts(t *testing.T) {
	parts := min(processors, *seeds)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range parts {
		first := *seed + i**seeds/parts
		n := *seed + (i+1)**seeds/parts - first
		wg.Go(func() {
			out, err := seedsInAnotherProcess(t, first, n, fmt.Sprintf("-sim.shrink=%t", *smaller)).CombinedOutput()
			mu.Lock()
			defer mu.Unlock()
			t.Logf("%s", bytes.TrimSpace(out))
			if err != nil {
				t.Errorf("seeds %d to %d: %v", first, first+n-1, err)
			}
		})
	}
	wg.Wait()
}

func seedsInAnotherProcess(t *testing.T, first, n int, more ...string) *exec.Cmd {
	args := append([]string{"-test.run=^TestSeeds$", "-test.v", "-sim.part", "-sim.seed=" + strconv.Itoa(first), "-sim.seeds=" + strconv.Itoa(n), "-sim.shrink=" + strconv.FormatBool(*smaller)}, more...)
	return exec.CommandContext(t.Context(), os.Args[0], args...)
}

// shrink lets rapid look for the smallest plan that is still found wrong; it
// begins with the plan of the seed, and fails the test.
func shrink(t *testing.T, seed int) {
	for name, value := range map[string]string{"rapid.seed": strconv.Itoa(seed), "rapid.checks": "1", "rapid.nofailfile": "true"} {
		harness.OK(t, flag.Set(name, value))
	}
	rapid.Check(t, func(rt *rapid.T) {
		p := plans.Draw(rt, "plan")
		if o := simulate(t, p, nil); o.wrong != nil {
			rt.Fatalf("seed %d: %v\n%s%s\n(go test ./internal/proof/sim -run TestSeeds -sim.seeds=1 -sim.seed=%d runs the seed as it was)", seed, o.wrong, p, o.trace, seed)
		}
	})
	t.Errorf("seed %d was wrong once, and not again: the simulation is not deterministic", seed)
}

// TestASeedReplays runs seeds again and again: their traces are equal, byte by
// byte, and so is what was pending at each step, but for one in fifty at most.
func TestASeedReplays(t *testing.T) {
	*pending = true
	defer func() { *pending = false }()
	if harness.Race {
		t.Skip("the race detector shuffles goroutines on purpose, some below what the simulator orders: run without -race")
	}
	many, once := *replays, 2
	for n, times := range map[int]int{1: many, 2: many, 17: many, 100: once, 101: once, 102: once, 103: once, 104: once, 105: once} {
		p := plans.Example(n)
		first := simulate(t, p, nil)
		others := 0 // the runtime preempts a goroutine that has run for 10 ms, on a busy machine any of them
		for i := range times {
			if again := simulate(t, p, nil); again.trace != first.trace {
				others++
				t.Logf("seed %d, replay %d: %s", n, i, difference(first.trace, again.trace))
			}
		}
		if others > max(1, times/50) {
			t.Errorf("seed %d: %d of %d replays are others", n, others, times)
		}
	}
}

// TestASeedReplaysInAnotherProcess runs the same seeds in two processes: the seed
// that a run prints is worth something only if the next one sees the same.
func TestASeedReplaysInAnotherProcess(t *testing.T) {
	if harness.Race {
		t.Skip("as TestASeedReplays")
	}
	var traces [2]string
	var wg sync.WaitGroup
	for i := range traces {
		wg.Go(func() {
			out, err := seedsInAnotherProcess(t, 60, 40, "-sim.digests").CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			traces[i] = strings.Join(regexp.MustCompile("trace of seed.*").FindAllString(string(out), -1), "\n")
		})
	}
	wg.Wait()
	a, b := strings.Split(traces[0], "\n"), strings.Split(traces[1], "\n")
	if len(a) != 40 || len(b) != 40 {
		t.Fatalf("%d and %d traces", len(a), len(b))
	}
	others := 0 // as in TestASeedReplays
	for i := range a {
		if a[i] != b[i] {
			others++
			t.Logf("%s, and %s", a[i], b[i])
		}
	}
	if others > 1 {
		t.Errorf("%d seeds are others", others)
	}
}

func difference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return fmt.Sprintf("...\n%s\nfirst:  %s\nreplay: %s", strings.Join(as[max(0, i-5):i], "\n"), as[i], bs[i])
		}
	}
	return "one is longer"
}
