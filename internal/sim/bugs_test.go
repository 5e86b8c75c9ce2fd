package sim

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/keys"
)

// bug is a fault that is put into the engine, to show that a run finds it.
type bug struct {
	fetcher fetch.Factory                           // nil: fetch.NewReliable
	script  func(w *world, words []string) []string // changes a command on its way to Redis; nil: none
}

// TestSeededBugsAreFound puts one bug at a time into the engine and runs seeds
// until one is found wrong, which must be soon.
func TestSeededBugsAreFound(t *testing.T) {
	if raceEnabled {
		t.Skip("hundreds of runs that show nothing about races: run without -race")
	}
	for _, b := range []struct {
		name  string
		bug   bug
		found string // a pattern of what the run says
	}{
		{"ack before run", bug{fetcher: wrapped(func(f fetch.Fetcher, _ fetch.Env) fetch.Fetcher { return &ackFirst{f} })}, "is lost"},
		{"pop, then push", bug{fetcher: wrapped(func(f fetch.Fetcher, env fetch.Env) fetch.Fetcher { return &popFirst{Fetcher: f, env: env} })}, "is lost"},
		{"requeue before fetch has ended", bug{fetcher: wrapped(func(f fetch.Fetcher, _ fetch.Env) fetch.Fetcher { return &hasty{Fetcher: f} })}, "has stopped in good order and left|there is still work"},
		{"a rescue without a guard", bug{script: both(
			instead("look", `'-inf', text, 'LIMIT'`, `'-inf', '+inf', 'LIMIT'`), instead("fence", "if left ~= -2 then", "if false then"),
		)}, "was fenced though its lease lives"},
		{"a take without a fence", bug{script: instead("take", "if lease ~= ARGV[1] then", "if false then")}, "there is still work"},
		{"a move that leaves a copy behind", bug{script: instead("settle", "call('HDEL', wip, unpack(ARGV, first, first + n - 1))", "")}, " stands in .* and "},
		{"a resume that forgets what a lost call took", bug{script: instead("resume", "if job then", "if false then")}, "there is still work"},
		{"a recovery that counts twice", bug{script: instead("reroute", "pcall('HSET', KEYS[7], job, ARGV[at + 9])",
			"pcall('HSET', KEYS[7], job, string.sub(ARGV[at + 9], 1, -2) .. ',' .. string.sub(ARGV[at + 9], 2))")}, "and [0-9] are counted"},
		{"a recovery that does not count", bug{script: instead("reroute", "pcall('HSET', KEYS[7], job, ARGV[at + 9])", "")}, "and 0 are counted"},
	} {
		t.Run(b.name, func(t *testing.T) {
			for seed := 1; seed <= 1000; seed++ {
				o := simulate(t, plans.Example(seed), &b.bug)
				if o.wrong == nil {
					continue
				}
				if !regexp.MustCompile(b.found).MatchString(o.wrong.Error()) {
					t.Errorf("seed %d found something else, expected %q: %v", seed, b.found, o.wrong)
				}
				t.Logf("seed %d: %v", seed, o.wrong)
				return
			}
			t.Error("1,000 seeds have not found it")
		})
	}
}

func wrapped(wrap func(fetch.Fetcher, fetch.Env) fetch.Fetcher) fetch.Factory {
	return func(env fetch.Env) (fetch.Fetcher, error) {
		f, err := fetch.NewReliable(env)
		if err != nil {
			return nil, err
		}
		return wrap(f, env), nil
	}
}

// ackFirst acks what it has taken before it hands it out.
type ackFirst struct{ fetch.Fetcher }

func (f *ackFirst) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	units, err := f.Fetcher.Take(ctx, n, acks)
	if err == nil && len(units) > 0 {
		_, err = f.Fetcher.Take(ctx, 0, units)
	}
	return units, err
}

// popFirst takes a job off its queue, and then puts it into the private place.
type popFirst struct {
	fetch.Fetcher
	env fetch.Env
	n   int
}

func (f *popFirst) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	if _, err := f.Fetcher.Take(ctx, 0, acks); err != nil || n == 0 {
		return nil, err
	}
	for _, queue := range f.env.Queues.Names() {
		payload, err := f.env.Redis.RPop(ctx, keys.Queue(queue)).Result()
		if err == redis.Nil { //nolint:errorlint // as it comes
			continue
		}
		if err != nil {
			return nil, err
		}
		f.n++
		u := fetch.Unit{Queue: queue, Payload: []byte(payload), Receipt: fmt.Sprintf("%d00", f.n), Incarnation: 1}
		id := f.env.Identity + "#" + f.env.Capsule + ".1"
		return []fetch.Unit{u}, f.env.Redis.HSet(ctx, "troupe:wip:{"+keys.Queue(queue)+"}:"+id, u.Receipt, payload).Err()
	}
	return nil, nil
}

// hasty says that a Take has ended while it is still under way: its units come
// with the next Take.
type hasty struct {
	fetch.Fetcher
	ended chan []fetch.Unit
}

func (f *hasty) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	if f.ended == nil {
		if n == 0 {
			return f.Fetcher.Take(ctx, n, acks)
		}
		ended := make(chan []fetch.Unit, 1)
		f.ended = ended
		go func() {
			units, _ := f.Fetcher.Take(context.WithoutCancel(ctx), n, acks)
			ended <- units
		}()
	}
	select {
	case units := <-f.ended:
		f.ended = nil
		return units, nil
	case <-time.After(200 * time.Microsecond):
		return nil, nil
	}
}

// instead changes one line of a script.
func instead(name, line, by string) func(*world, []string) []string {
	for _, s := range scripts() {
		if s.name != name {
			continue
		}
		if strings.Count(s.src, line) != 1 {
			panic("script " + name + " has not one line with " + line)
		}
		changed := strings.Replace(s.src, line, by, 1)
		return func(_ *world, words []string) []string {
			if script(words) != name {
				return words
			}
			return append([]string{"EVAL", changed}, words[2:]...)
		}
	}
	panic("no script " + name)
}

func both(a, b func(*world, []string) []string) func(*world, []string) []string {
	return func(w *world, words []string) []string {
		if changed := a(w, words); changed[0] == "EVAL" {
			return changed
		}
		return b(w, words)
	}
}
