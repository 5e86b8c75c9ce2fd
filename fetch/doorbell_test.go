package fetch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/parcel"
	"github.com/troupehq/troupe/internal/redistest"
)

// wakeRig is a server with idle fetchers that all serve the same queues.
type wakeRig struct {
	t      *testing.T
	server *redistest.Server
	rdb    *redis.Client
	queues Strict
	took   chan string
	acked  chan struct{}
}

func newWakeRig(t *testing.T, queues ...string) *wakeRig {
	t.Helper()
	server := redistest.Start(t) // of its own: counters, and invalidations know no database numbers
	r := &wakeRig{t: t, server: server, queues: queues, took: make(chan string, 1000), acked: make(chan struct{}, 1000)}
	r.rdb = r.client()
	return r
}

func (r *wakeRig) client() *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: r.server.Addr, MaxRetries: -1})
	r.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// fetcher makes one that nobody runs; it is closed at the end if it can be.
func (r *wakeRig) fetcher(name string) *reliable {
	r.t.Helper()
	env := testEnv(r.client(), r.queues)
	env.Capsule = name
	f := mustOpen(r.t, env)
	r.t.Cleanup(func() { _, _ = f.Close(context.Background()) })
	return f
}

// rests brings a fetcher to rest, as a daemon does, and tells its seat.
func (r *wakeRig) rests(f *reliable) seat {
	r.t.Helper()
	if err := f.Wait(r.t.Context(), time.Millisecond); err != nil {
		r.t.Fatal(err)
	}
	mustTake(r.t, f, 10)
	f.bell.mu.Lock()
	defer f.bell.mu.Unlock()
	return f.bell.seat
}

// run starts a daemon's loop around f, with so many slots.
func (r *wakeRig) run(f *reliable, slots int) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var acks []Unit
		for ctx.Err() == nil {
			units, err := f.Take(context.Background(), slots, acks)
			if err != nil {
				<-time.After(10 * time.Millisecond) // Redis may be away for a while
				continue
			}
			for range acks {
				r.acked <- struct{}{}
			}
			acks = units
			for _, u := range units {
				r.took <- string(u.Payload)
			}
			if len(units) == 0 {
				_ = f.Wait(ctx, lookTime)
			}
		}
	}()
	r.t.Cleanup(func() { cancel(); <-done })
}

func (r *wakeRig) push(queue string) {
	r.t.Helper()
	ctx := r.t.Context()
	_, err := r.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.SAdd(ctx, keys.Queues, queue)
		pipe.LPush(ctx, keys.Queue(queue), "job")
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// wakes tells how long f's Wait takes after a push to queue.
func (r *wakeRig) wakes(f *reliable, queue string) time.Duration {
	r.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- f.Wait(r.t.Context(), time.Minute) }()
	r.until("it waits", func() bool {
		f.bell.mu.Lock()
		defer f.bell.mu.Unlock()
		f.peeks.mu.Lock()
		defer f.peeks.mu.Unlock()
		return f.bell.waiting+f.peeks.waiting > 0
	})
	begun := time.Now()
	r.push(queue)
	r.await("the wait's end", ended)
	return time.Since(begun)
}

func (r *wakeRig) await(what string, c <-chan error) {
	r.t.Helper()
	select {
	case err := <-c:
		if err != nil {
			r.t.Fatalf("%s: %v", what, err)
		}
	case <-time.After(30 * time.Second):
		r.t.Fatalf("%s: did not come", what)
	}
}

func (r *wakeRig) until(what string, cond func() bool) {
	r.t.Helper()
	for end := time.Now().Add(30 * time.Second); !cond(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("not seen: %s", what)
		}
	}
}

// settled waits until all of n fetchers have come to rest: they hold, or stand in line.
func (r *wakeRig) settled(n int) {
	set := keys.SetOf(r.queues.Names())
	r.until("all rest", func() bool {
		have := r.rdb.Exists(r.t.Context(), keys.Baton(set)).Val() + r.rdb.ZCard(r.t.Context(), keys.Line(set)).Val()
		return have == int64(n)
	})
}

// sent counts the commands that clients have sent: none of them is used inside
// a script. INFO itself is not counted.
func (r *wakeRig) sent() float64 {
	r.t.Helper()
	info, err := r.rdb.Info(r.t.Context(), "commandstats").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	sum := 0.0
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		name, _, _ = strings.Cut(strings.TrimPrefix(name, "cmdstat_"), "|")
		switch name {
		case "evalsha", "eval", "brpop", "blmove", "sadd", "lpush", "ping", "client", "hello", "subscribe":
			_, value, _ = strings.Cut(value, "calls=")
			value, _, _ = strings.Cut(value, ",")
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				r.t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// However many processes are idle, a job wakes one, and costs five commands at
// most with its push and its ack: six where every job fills its process.
func TestAHerdCostsNoMoreThanOne(t *testing.T) {
	for slots, most := range map[int]float64{10: 5, 1: 6} {
		t.Run(fmt.Sprint("slots=", slots), func(t *testing.T) {
			const fetchers, jobs = 32, 300
			r := newWakeRig(t, "a", "b", "c")
			for i := range fetchers {
				r.run(r.fetcher(fmt.Sprint(i)), slots)
			}
			r.settled(fetchers)
			before, begun := r.sent(), time.Now()
			for i := range jobs {
				r.push(r.queues[i%3])
				<-r.took
				<-r.acked
			}
			took := time.Since(begun).Seconds()
			// A fetcher looks each 5 s whatever happens, the deputy 100 ms after a push.
			looks := fetchers*took/lookTime.Seconds() + took/standIn.Seconds()
			cost := (r.sent() - before - looks) / jobs
			t.Logf("%.2f commands a job, without %.1f looks in %.1f s", cost, looks, took)
			if cost > most {
				t.Errorf("%.2f commands a job, expected %v at most", cost, most)
			}
		})
	}
}

// The take that finds less than it asked for arms the bell, after its own moves:
// nobody else is there to wake this one.
func TestATakeArms(t *testing.T) {
	t.Parallel()
	r := newWakeRig(t, "a", "b")
	f := r.fetcher("1")
	r.rests(f)
	for _, queue := range []string{"a", "a", "b", "a"} {
		if took := r.wakes(f, queue); took > lookTime*4/5 {
			t.Errorf("woke after %v", took)
		}
		units := mustTake(t, f, 10)
		if len(units) != 1 {
			t.Fatalf("units %v", units)
		}
		if queue == "b" { // with and without a take that acks
			mustTake(t, f, 10, units...)
		}
	}
}

// A push between a take and its reply rings for a wait that is under way; that
// wait is over before the reply is read, and the next one must not rely on keys
// that have changed since they were read.
func TestAPushThatCrossesTheReplyOfATake(t *testing.T) {
	t.Parallel()
	r := newWakeRig(t, "a")
	f := r.fetcher("1")
	r.rests(f)
	rung, err := f.bell.rest(t.Context(), false) // what a wait does until it blocks
	if rung == nil || err != nil {
		t.Fatalf("the bell rings though nothing was pushed, or %v", err)
	}

	in := f.cur
	take := f.bell.begin(false)
	args, _ := f.takeArgs(in, receiptPrefix(1), 10, 0, parcel.Size, f.wants(10, f.rand), nil, take)
	reply, err := takeScript.run(t.Context(), take.via(f.rdb), args)
	if err != nil {
		t.Fatal(err)
	}
	r.push("a")
	select {
	case <-rung:
	case <-time.After(30 * time.Second):
		t.Fatal("the bell does not ring")
	}
	if err := f.bell.answer(rung); err != nil { // the wait is over
		t.Fatal(err)
	}
	got, err := f.units(in, receiptPrefix(1), reply, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if take.end(got.seat, len(got.units), nil); len(got.units) != 0 || got.seat != "hold" {
		t.Fatalf("%d units, seat %q, expected none and hold", len(got.units), got.seat)
	}

	begun := time.Now()
	if err := f.Wait(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > lookTime*4/5 {
		t.Errorf("a wait took %v though a job is queued", took)
	}
	if units := mustTake(t, f, 10); len(units) != 1 {
		t.Errorf("%d units, expected the job", len(units))
	}
}

// An idle fetcher costs a command each 5 s, however many queues it serves.
func TestIdleFetchersAreQuiet(t *testing.T) {
	t.Parallel()
	var queues []string
	for i := range 30 {
		queues = append(queues, fmt.Sprint("q", i))
	}
	const fetchers = 4
	r := newWakeRig(t, queues...)
	for i := range fetchers {
		r.run(r.fetcher(fmt.Sprint(i)), 10)
	}
	r.settled(fetchers)
	before, begun := r.sent(), time.Now()
	<-time.After(lookTime + lookTime/5) // what is counted is a rate
	cost := (r.sent() - before) / fetchers / time.Since(begun).Seconds()
	t.Logf("%.2f commands a second", cost)
	if cost > 0.5 {
		t.Errorf("an idle fetcher sends %.2f commands a second", cost)
	}
}

// Those in a long line look rarely: it is enough that one of them does now and
// then. The listener and its deputy go on looking each 5 s.
func TestALongLineLooksRarely(t *testing.T) {
	t.Parallel()
	const fetchers = 50
	r := newWakeRig(t, "a")
	first := time.Now() // no look was before
	for i := range fetchers {
		f := r.fetcher(fmt.Sprint(i))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				_, _ = f.Take(context.Background(), 1, nil)
				_ = f.Wait(ctx, time.Minute)
			}
		}()
		t.Cleanup(func() { cancel(); <-done })
	}
	r.settled(fetchers)
	rested := time.Now() // each has looked by now
	<-time.After(2 * lookTime)
	from := time.Since(rested)
	before := r.sent()
	<-time.After(2 * lookTime) // what is counted is a rate
	looks := r.sent() - before
	to := time.Since(first)
	// Each look of the listener and the deputy. Of the line, those whose second look
	// falls between from and to: who saw a line of n looks again after 3/4 to all of
	// n*lookTime/4, and by then sees the whole line.
	most := 2*((to-from).Seconds()/lookTime.Seconds()+1) +
		(to.Seconds()*4/3-from.Seconds())/(lookTime.Seconds()/4) + 1
	took := to - from
	t.Logf("%.0f looks in %v, expected %.0f at most", looks, took, most)
	if looks > most {
		t.Errorf("%d idle fetchers looked %.0f times in %v, expected %.0f at most", fetchers, looks, took, most)
	}
}

// How often one in a line looks depends on its length only.
func TestPatienceGrowsWithTheLine(t *testing.T) {
	t.Parallel()
	d := &doorbell{name: "troupe:wake:x"}
	for n := range 2000 {
		got := d.patience(n)
		full := min(max(time.Duration(n)*lookTime/4, lookTime), lineTime)
		if got < lookTime || got > full || got < full*3/4 || n <= 4 && got != lookTime {
			t.Errorf("patience in a line of %d: %v of %v", n, got, full)
		}
	}
}

// The holder of the baton dies: its deputy sees the next push long before the
// look that everybody makes after 5 s, and has a deputy of its own.
func TestTheDeputyStandsIn(t *testing.T) {
	t.Parallel()
	r := newWakeRig(t, "a", "b")
	holder, second, third := r.fetcher("1"), r.fetcher("2"), r.fetcher("3")
	if got := r.rests(holder); got != listener {
		t.Fatalf("the first one's seat is %d", got)
	}
	if got := r.rests(second); got != deputy {
		t.Fatalf("the second one's seat is %d", got)
	}
	if got := r.rests(third); got != queued {
		t.Fatalf("the third one's seat is %d", got)
	}
	for _, dies := range []*reliable{holder, second} {
		heir := map[*reliable]*reliable{holder: second, second: third}[dies]
		dies.bell.ears.wires.cut() // as the end of its process does
		if took := r.wakes(heir, "b"); took > lookTime*4/5 {
			t.Errorf("woke after %v", took)
		}
		mustTake(t, heir, 0, mustTake(t, heir, 10)...)
		if got := r.rests(heir); got != listener {
			t.Errorf("the heir's seat is %d", got)
		}
		if heir == second { // it has been told to be the new deputy
			r.until("there is a new deputy", func() bool { return r.rests(third) == deputy })
		}
	}
}

// All but one of a long line die at once. It would not look for minutes, and
// learns on a beat that nobody has the baton.
func TestWhoIsLeftOfALineSeesThatNobodyListens(t *testing.T) {
	t.Parallel()
	r := newWakeRig(t, "a")
	listens, second, f := r.fetcher("1"), r.fetcher("2"), r.fetcher("3")
	for _, one := range []*reliable{listens, second, f} {
		r.rests(one)
	}
	rung := func() bool {
		if _, err := rides(t, f); err != nil {
			t.Fatal(err)
		}
		f.bell.mu.Lock()
		defer f.bell.mu.Unlock()
		return isClosed(f.bell.rung)
	}
	if rung() {
		t.Error("the bell rings though somebody listens")
	}
	r.rdb.Del(t.Context(), keys.Baton(keys.SetOf(r.queues)), keys.Line(keys.SetOf(r.queues))) // in time they end by themselves
	if !rung() {
		t.Error("the bell does not ring")
	}
	if got := r.rests(f); got != listener {
		t.Errorf("its seat is %d", got)
	}
	if rung() {
		t.Error("the bell rings for the listener")
	}
}

// The holder does not answer but its connection stands: a frozen process, or one
// behind a network that has gone. The deputy finds a job that should be gone and
// takes the baton.
func TestAFrozenHolderLosesTheBaton(t *testing.T) {
	t.Parallel()
	r := newWakeRig(t, "a")
	ghost := r.rdb.Subscribe(t.Context(), "troupe:wake:ghost")
	defer func() { _ = ghost.Close() }()
	if _, err := ghost.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	baton := keys.Baton(keys.SetOf(r.queues))
	r.rdb.Set(t.Context(), baton, "troupe:wake:ghost", 0)
	f := r.fetcher("1")
	if got := r.rests(f); got != deputy {
		t.Fatalf("seat %d", got)
	}
	if took := r.wakes(f, "a"); took > lookTime*4/5 {
		t.Errorf("woke after %v", took)
	}
	if units := mustTake(t, f, 10); len(units) != 1 {
		t.Fatalf("units %v", units)
	}
	if holder := r.rdb.Get(t.Context(), baton).Val(); holder != f.bell.name {
		t.Errorf("the baton is at %q", holder)
	}
}

// Holder and deputy die at once: the others look by themselves.
func TestWithoutHolderAndDeputy(t *testing.T) {
	t.Parallel()
	r := newWakeRig(t, "a")
	holder, second, third := r.fetcher("1"), r.fetcher("2"), r.fetcher("3")
	for _, f := range []*reliable{holder, second, third} {
		r.rests(f)
	}
	holder.bell.ears.wires.cut()
	second.bell.ears.wires.cut()
	if took := r.wakes(third, "a"); took > 2*lookTime {
		t.Errorf("woke after %v", took)
	}
}

// One that is called away hands the baton on at once, and so does one that
// nobody calls when its bell rings.
func TestTheBatonIsHandedOn(t *testing.T) {
	t.Parallel()
	for name, idle := range map[string]func(r *wakeRig, f *reliable){
		"called away": func(r *wakeRig, f *reliable) {
			ctx, cancel := context.WithCancel(r.t.Context())
			ended := make(chan error, 1)
			go func() { ended <- f.Wait(ctx, time.Minute) }()
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				r.t.Errorf("wait: %v", err)
			}
		},
		"unheard": func(r *wakeRig, _ *reliable) { r.push("a") },
		"closed": func(r *wakeRig, f *reliable) {
			if _, err := f.Close(r.t.Context()); err != nil {
				r.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newWakeRig(t, "a")
			first, second := r.fetcher("1"), r.fetcher("2")
			r.rests(first)
			r.rests(second)
			// Nobody calls the other one either, so it keeps the baton for a moment only;
			// but what it is told can be heard.
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			told := r.rdb.Subscribe(ctx, second.bell.name)
			defer func() { _ = told.Close() }()
			if _, err := told.Receive(ctx); err != nil {
				t.Fatal(err)
			}
			idle(r, first)
			for {
				m, err := told.ReceiveMessage(ctx)
				if err != nil {
					t.Fatalf("the other one is not told that it has it: %v", err)
				}
				if m.Payload == "baton" {
					break
				}
			}
		})
	}
}

// A queue that is unpaused is seen at once, and a push to a paused one is not.
func TestUnpausingRings(t *testing.T) {
	t.Parallel()
	r := newWakeRig(t, "a", "b")
	r.rdb.SAdd(t.Context(), keys.Paused, "a")
	f := r.fetcher("1")
	r.rests(f)
	f.bell.mu.Lock()
	rung := f.bell.rung
	f.bell.mu.Unlock()
	r.push("a")
	r.push("b") // invalidations come in order: by the one of b, that of a was heard
	<-rung
	if units := mustTake(t, f, 10); len(units) != 1 || units[0].Queue != "b" {
		t.Fatalf("units %v", units)
	}
	ended := make(chan error, 1)
	begun := time.Now()
	go func() { ended <- f.Wait(t.Context(), time.Minute) }()
	r.rdb.SRem(t.Context(), keys.Paused, "a")
	r.await("the wait's end", ended)
	if took := time.Since(begun); took > lookTime*4/5 {
		t.Errorf("unpaused queue seen after %v", took)
	}
}

// Redis ends and comes back empty: the fetchers listen again.
func TestTheBellSurvivesRedis(t *testing.T) {
	t.Parallel()
	r := newWakeRig(t, "a")
	for i := range 3 {
		r.run(r.fetcher(fmt.Sprint(i)), 10)
	}
	r.settled(3)
	r.server.Kill()
	if err := r.server.Restart(); err != nil {
		t.Fatal(err)
	}
	r.until("the server is back", func() bool { return r.rdb.Ping(t.Context()).Err() == nil })
	r.settled(3)
	r.push("a")
	<-r.took
}

// A seat whose connections have broken is given up all the same by a Close that
// comes before there are new ones.
func TestAFetcherWithoutEarsLeavesNoBaton(t *testing.T) {
	r := newWakeRig(t, "default")
	f := r.fetcher("one")
	if at := r.rests(f); at != listener {
		t.Fatalf("the seat is %v", at)
	}
	r.rdb.Do(t.Context(), "client", "kill", "type", "pubsub")
	r.until("the ears are gone", func() bool {
		f.bell.mu.Lock()
		defer f.bell.mu.Unlock()
		return f.bell.ears == nil
	})
	if _, err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := r.rdb.Keys(t.Context(), "*").Val(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Keys of the wrong type in the place of baton and line stop nobody.
func TestWrongTypedBaton(t *testing.T) {
	t.Parallel()
	set := keys.SetOf([]string{"a"})
	for _, key := range []string{keys.Baton(set), keys.Line(set)} {
		r := newWakeRig(t, "a")
		r.rdb.HSet(t.Context(), key, "x", "y")
		for i := range 3 {
			r.run(r.fetcher(fmt.Sprint(i)), 1)
		}
		for range 10 {
			r.push("a")
			<-r.took
			<-r.acked
		}
	}
}

// A server that refuses CLIENT TRACKING, or the channel: peeks wake as well.
func TestWithoutTracking(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"-client|tracking", "resetchannels"} {
		r := newWakeRig(t, "a", "b")
		if err := r.rdb.Do(t.Context(), "acl", "setuser", "u", "on", ">p", "~*", "&*", "+@all", rule).Err(); err != nil {
			if err = r.rdb.Do(t.Context(), "acl", "setuser", "u", "on", ">p", "~*", "&*", "+@all", "-client").Err(); err != nil { // Redis 6.2
				t.Fatal(err)
			}
		}
		rdb := redis.NewClient(&redis.Options{Addr: r.server.Addr, MaxRetries: -1, Username: "u", Password: "p"})
		t.Cleanup(func() { _ = rdb.Close() })
		f := mustOpen(t, testEnv(rdb, r.queues))
		if took := r.wakes(f, "b"); took > lookTime*4/5 {
			t.Errorf("%s: woke after %v", rule, took)
		}
		if !strings.Contains(r.rdb.Info(t.Context(), "commandstats").Val(), "blmove") {
			t.Errorf("%s: nothing was peeked at", rule)
		}
		if _, err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
