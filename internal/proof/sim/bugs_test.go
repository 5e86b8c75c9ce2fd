package sim

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/test/harness"
)

// bug is a fault that is put into the engine, to show that a run finds it.
type bug struct {
	fetcher  fetch.Factory                           // nil: fetch.NewReliable
	script   func(w *world, words []string) []string // changes a command on its way to Redis; nil: none
	outcomes func([]error)                           // changes the outcomes of the jobs of a call
	plan     func(*Plan)                             // makes a plan more of the kind that finds it; nil: as drawn
}

// TestSeededBugsAreFound puts one bug at a time into the engine and runs seeds
// until one is found wrong, which must be soon.
func TestSeededBugsAreFound(t *testing.T) {
	if harness.Race {
		t.Skip("hundreds of runs that show nothing about races: run without -race")
	}
	for _, b := range append([]seededBug{
		{"ack before run", bug{fetcher: wrapped(func(f fetch.Isolator, _ fetch.Env) fetch.Fetcher { return &ackFirst{f} })}, "is lost"},
		{"pop, then push", bug{fetcher: wrapped(func(f fetch.Isolator, env fetch.Env) fetch.Fetcher { return &popFirst{Isolator: f, env: env} })}, "is lost"},
		{"requeue before fetch has ended", bug{fetcher: wrapped(func(f fetch.Isolator, _ fetch.Env) fetch.Fetcher { return &hasty{Isolator: f} })}, "has stopped in good order and left|there is still work"},
		{"a rescue without a guard", bug{script: all(
			instead(edit{"look", "'-inf', now, ", "'-inf', '+inf', "}),
			func(_ *world, words []string) []string {
				if strings.EqualFold(words[0], "pttl") {
					return []string{words[0], "nobody"}
				}
				return words
			},
		)}, "to which nothing has happened"},
		{"calls without a fence, generation and number", bug{plan: late, script: instead(
			edit{"take", "if string.sub(mark, 1, 6) == 'fenced' then", "if false then"}, edit{"take", "if mark ~= ARGV[1] then", "if false then"},
		)}, "no place names|there is still work|runs for the|after [0-9]+ recoveries"},
		{"a move that leaves a copy behind", bug{script: instead(
			edit{"settle", "pcall('LREM', list, '-1', ARGV[i])", ""},
			edit{"settle", "pcall('LTRIM', list, '0', tostring(-n - 1))", ""},
		)}, " stands in .* and "},
		{"a resync that does not see what a lost call took", bug{script: instead(edit{"begin", "if fields[i] ~= '!' then", "if false then"})}, "there is still work|has not written it back"},
		{"a resync that writes nothing back", bug{script: instead(edit{"restore", "call('RPUSH', KEYS[2], unpack(ARGV, 5))", ""})}, "has not written it back|there is still work|is there twice|has stopped in good order and left"},
		{"what is found again is acked", bug{fetcher: wrapped(func(f fetch.Isolator, _ fetch.Env) fetch.Fetcher {
			return &forgetful{Isolator: f, seen: map[string]bool{}}
		})}, "is lost"},
		{"a wait into a list without a name", bug{script: instead(
			edit{"open", "redis.call('HSETNX', KEYS[1], ARGV[2]", "redis.call('HSETNX', KEYS[1], ''"},
			edit{"begin", "call('HSETNX', KEYS[1], ARGV[i]", "call('HSETNX', KEYS[1], ''"},
		)}, "no place names"},
		{"a list that stays open after the rescue", bug{plan: late, script: instead(edit{"putback", "if ARGV[3] ~= '' then", "if false then"})}, "no place names"},
		{"a rescue that forgets the names first", bug{script: instead(edit{"fence", "return call('HGETALL', KEYS[1])", `local all = call('HGETALL', KEYS[1])
			for i = 1, #all, 2 do if all[i] ~= '!' then call('HDEL', KEYS[1], all[i]) end end
			return all`})}, "no place names"},
		{"a recovery that counts twice", bug{script: instead(edit{"reroute", "pcall('HSET', KEYS[7], job, ARGV[at + 7])",
			"pcall('HSET', KEYS[7], job, string.sub(ARGV[at + 7], 1, -2) .. ',' .. string.sub(ARGV[at + 7], 2))"})}, "and [0-9] are counted"},
		{"a recovery that does not count", bug{script: instead(edit{"reroute", "pcall('HSET', KEYS[7], job, ARGV[at + 7])", ""})}, "and 0 are counted"},
		{"a job leaves its list on a cluster before it is written", bug{fetcher: wrapped(func(f fetch.Isolator, env fetch.Env) fetch.Fetcher { return &ackThenPut{f, env} })}, "is lost"},
		{"a promotion on a cluster that leaves no trace", bug{script: instead(edit{"moving-claim", "redis.call('ZADD', KEYS[2], deadline, ARGV[i])", ""})}, "is lost"},
		{"a promotion on a cluster that is not finished", bug{script: instead(edit{"moving-finish", "for i = 2, n + 1 do redis.call('ZREM', KEYS[2], ARGV[i]) end", ""})}, "to which nothing has happened"},
		{"a command with keys of two slots", bug{fetcher: wrapped(func(f fetch.Isolator, env fetch.Env) fetch.Fetcher { return &crossing{f, env} })}, "keys of several slots"},
		{"a stay whose lost reply is repeated", bug{plan: items, fetcher: wrapped(func(f fetch.Isolator, _ fetch.Env) fetch.Fetcher { return &oblivious{f.(effector)} })}, "enters again|enters [0-9] times|has pushed [2-9] times| stands in .* and "},
		{"pushes after the move", bug{plan: spoiled, script: instead(
			edit{"settle", "err = err or enterAll(effects)", ""},
			edit{"settle", "    dropped(list, field)\n    if ARGV", "    enterAll(effects)\n    dropped(list, field)\n    if ARGV"},
		)}, "which it has pushed, is not there"},
		{"pushes that are not taken back when one is refused", bug{plan: spoiled, script: instead(edit{"settle", "for k = i - 1, 1, -1 do enter(effects[k], true) end", ""})}, "enters 1 times in a step that settles"},
		{"a refused push that does not keep its job", bug{plan: spoiled, script: instead(edit{"settle", "err = err or enterAll(effects)", "enterAll(effects)"})}, "which it has pushed, is not there"},
		{"pushes of a run that is fenced", bug{plan: children, script: instead(
			edit{"settle", "if string.sub(mark, 1, 6) == 'fenced' then", "local fenced = string.sub(mark, 1, 6) == 'fenced'\nif fenced and not string.find(table.concat(ARGV, ' '), ' push ') then"},
			edit{"settle", "if mark ~= ARGV[1] then", "if mark ~= ARGV[1] and not fenced then"},
		)}, "enters [0-9] times in a step that settles|is freed by settle, and the job stands in"},
		{"an ack that leaves its pushes out", bug{plan: children, fetcher: wrapped(func(f fetch.Isolator, _ fetch.Env) fetch.Fetcher { return &silent{f.(effector)} })}, "is not there"},
		{"a cursor that is stored apart from its pushes", bug{plan: items, script: instead(edit{"settle", "local err = text(pcall('HSET', KEYS[key], unpack(ARGV, first, last)))", "local err"})}, "has pushed [2-9] times"},
		{"a duplicate that is pushed", bug{plan: alike(nil), script: instead(edit{"unique", "said = 'd' .. holder", "said = ''"})}, "does not hold its lock"},
		{"a duplicate that is pushed with an ack", bug{plan: alike(children), script: instead(edit{"settle", "if holder ~= ARGV[at + 3] then", "if false then"})}, "does not hold its lock"},
		{"a lock that is not freed", bug{plan: alike(nil), script: instead(edit{"settle", "  elseif holder == jid then\n    pcall('DEL', lock)", "  elseif holder == jid then"})}, "after the end .* holds a lock"},
		{"a lock that is freed though the move is refused", bug{plan: alike(spoiled), script: instead(edit{"settle", "ipairs(err and {} or effects)", "ipairs(effects)"})}, "is freed by settle, and the job stands in"},
		{"a lock that is freed whoever holds it", bug{plan: alike(short), script: instead(edit{"settle", "elseif holder == jid then", "elseif holder then"})}, "is freed by settle, and the job stands in"},
		{"a retry that frees its lock", bug{plan: alike(failing), script: instead(edit{"settle", "if ms ~= '0' then", "if false then"})}, "is freed by settle, and the job stands in"},
		{"a retry that does not move the end of its lock", bug{plan: alike(failing), script: instead(edit{"settle", "if not holder or holder == jid then pcall('SET', lock, jid, 'PX', ms) end", ""})}, "its lock lives for"},
		{"a slot that is not given back", bug{plan: limited(failing), script: instead(edit{"settle", "r.left[#r.left + 1] = ARGV[i]", ""})}, "has left, and keeps its slot"},
		{"a held job that stays in progress", bug{plan: limited(nil), script: instead(edit{"admit", "pcall('LREM', j.list, '-1', j.job)", ""})}, " stands in .* and "},
		{"a job that is not held before it leaves", bug{plan: limited(nil), script: instead(edit{"admit", "hold(by, j.age, ", "local _ = (by.id .. "})}, "is lost"},
		{"a held job that is removed before it is written", bug{plan: limited(spoiled), script: instead(
			edit{"settle", "local err = text(pcall('RPUSH', what[1], bytes))", "pcall('ZREM', r.held, member)\n  local err = text(pcall('RPUSH', what[1], bytes))"},
			edit{"settle", "if back(r, member, what, bytes) then\n        pcall('ZADD', r.held, stamp(now()), member)", "if back(r, member, what, bytes) then"},
		)}, "is lost"},
		{"a job that is let in behind younger ones", bug{plan: limited(nil), script: instead(edit{"settle", "pcall('ZRANGE', r.held, '0', string.format('%.0f', math.min(force and most or room(r), most) - 1), 'WITHSCORES')",
			"pcall('ZREVRANGE', r.held, '0', string.format('%.0f', math.min(force and most or room(r), most) - 1), 'WITHSCORES')"})}, "an older one is held"},
		{"a beat that does not renew", bug{plan: limited(long), script: func(_ *world, words []string) []string {
			if strings.EqualFold(words[0], "zadd") && strings.Contains(words[1], "slots:") {
				return []string{"EXISTS", words[1]}
			}
			return words
		}}, "runs in .* without a slot"},
		{"nobody is let in behind a job that has left", bug{plan: limited(nil), script: all(
			instead(edit{"settle", "if r.left and pcall('EXISTS', r.held) == 1 then", "if false then"}),
			instead(edit{"letin", "local n = letIn(r, how", "local n = 0 * select('#', how"}),
		)}, "beside a free slot|there is still work"},
		{"a rate that gives no token away", bug{plan: rated, script: instead(edit{"admit", "r.back = r.back + n * r.every", ""})}, "have started with"},
		{"jobs that are held by the wrong age", bug{plan: limited(many), script: instead(edit{"admit", "hold(by, j.age, ", "hold(by, string.format('%.6f', 4000000000 - j.age), "})}, "has passed [0-9]+ that wait"},
		{"a beat that renews the slots of others", bug{plan: withRuby, script: func(w *world, words []string) []string {
			if !strings.EqualFold(words[0], "zadd") || !strings.Contains(words[1], "slots:") {
				return words
			}
			all, _ := w.redis.SortedSet(words[1])
			for _, member := range sortedKeys(all) {
				words = append(words, words[len(words)-2], member)
			}
			return words
		}}, "is gone for .*, and keeps its slot"},
		{"a limit that is asked too late", bug{plan: limited(nil), script: instead(edit{"admit", "room(r) <= free)", "room(r) <= free - 1)"})}, "have a slot, which is for"},
		{"a job that comes in beside one that runs", bug{plan: limited(oneByOne), script: instead( // without a slot: no more have one than may
			edit{"admit", "if not by and not j.force and (later or", `if not mine[k] and room(r) <= 0 and not j.ahead then
      local first = call('ZRANGE', r.slots, '0', '0', 'WITHSCORES')
      mine[k] = first[2] and tonumber(first[2]) < now() + life and 'beside'
    end
    if not by and not j.force and (later or`},
			edit{"admit", "if not r.every then\n      r.slotsOf[j.jid]", "if not r.every and mine[k] ~= 'beside' then\n      r.slotsOf[j.jid]"},
		)}, "2 jobs run at once, which is for 1"},
		{"a second probe", bug{plan: broken, script: instead(edit{"admit", "if ends(r) > 0 and not j.force then rest(r, now() + r.pause, j.jid) end",
			"if ends(r) > 0 and not j.force then pcall('HSET', r.rest, '~' .. j.jid, stamp(r.ends)) end"})}, "is let in as a probe by admit, and the next one may come in"},
		{"a probe before the rest ends", bug{plan: broken, script: all(
			instead(edit{"letin", "r.n = ends(r) > now() and 0 or math.min(r.n, 1 - r.coming)", "r.n = math.min(r.n, 1 - r.coming)"}),
			instead(edit{"admit", "r.n = ends(r) > now() and 0 or math.min(r.n, 1 - r.coming)", "r.n = math.min(r.n, 1 - r.coming)"}),
		)}, "is let in as a probe by .* s before the rest ends"},
		{"a slot that lets its job in while the limit rests", bug{plan: broken, script: instead(edit{"admit", "if ends(r) > 0 then return numeric(pcall('HGET', r.rest, '~' .. jid)) == r.ends end", ""})}, "begins in .* while a limit rests"},
		{"a slot that lets its job in ahead of its run", bug{plan: broken, script: instead(edit{"admit", "local later = j.ahead and r.failures", "local later = false"})}, "begins in .* and has not asked its limits"},
		{"a failure more that opens a breaker", bug{plan: broken, script: instead(edit{"settle", "'failures', '1')) >= r.failures then", "'failures', '1')) > r.failures then"})}, "behind settle its breaker is"},
		{"a probe that is done and does not close the breaker", bug{plan: broken, script: instead(edit{"settle", "close(r)\n    return 'closed'", "return 'closed'"})}, "behind settle its breaker is"},
		{"nobody looks when a rest has ended", bug{plan: broken, script: all(
			instead(edit{"letin", "if ends(r) > now() then first = {'', ends(r)} end", "if ends(r) > now() then first = {'', ends(r) + 100} end\n  at = at + 60"}),
			instead(edit{"admit", "if ends(r) > now() then first = {'', ends(r)} end", "if ends(r) > now() then first = {'', ends(r) + 100} end\n  at = at + 60"}),
			instead(edit{"settle", "if ends(r) > now() then first = {'', ends(r)} end", "if ends(r) > now() then first = {'', ends(r) + 100} end\n  at = at + 60"}),
		)}, "beside a free slot"},
		{"a lock until the start that stays", bug{plan: alike(untilStart), fetcher: wrapped(func(f fetch.Isolator, _ fetch.Env) fetch.Fetcher { return &keeper{f.(effector)} })}, "still holds its lock"},
	}, slices.Concat(batchBugs(), resultBugs(), collectBugs())...) {
		t.Run(b.name, func(t *testing.T) {
			for seed := 1; seed <= 1000; seed++ {
				plan := unbatched.Example(seed)
				plan.Limits = nil // those that limits find set their own
				if b.bug.plan != nil {
					b.bug.plan(&plan)
				} else if b.bug.fetcher != nil {
					plain(&plan)
				}
				o := simulate(t, plan, &b.bug)
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

// late adds commands that are applied when their connections have long been given up.
func late(p *Plan) {
	for place := range p.Fleet {
		for step := 1; step <= 16; step += 3 {
			p.Faults = append(p.Faults, Fault{Place: place, Step: step, OfJobs: true, Kind: Late, For: time.Duration(step%5) * lease / 2})
		}
	}
}

// plain has no job push: a fetcher that is wrapped need not be able to.
func plain(p *Plan) {
	for i := range p.Jobs {
		p.Jobs[i].Pushes, p.Jobs[i].Links, p.Jobs[i].Items, p.Jobs[i].Unique = 0, 0, 0, Unique{}
	}
}

// alike has every job be unique, all of a queue by the same lock; and what they push.
func alike(more func(*Plan)) func(*Plan) {
	return func(p *Plan) {
		p.Cluster, p.Peers, p.Children = false, 0, Unique{Group: 1, For: time.Hour}
		for i := range p.Jobs {
			p.Jobs[i].Items, p.Jobs[i].Unique = 0, Unique{Group: 1, For: time.Hour}
		}
		if more != nil {
			more(p)
		}
	}
}

// short has locks end before their jobs.
func short(p *Plan) {
	for i := range p.Jobs {
		j := &p.Jobs[i]
		j.After, j.In, j.Lasts, j.Unique.For = 1500*time.Millisecond, 0, 8*time.Second, time.Second
	}
}

// failing has the first run of each job fail.
func failing(p *Plan) {
	for i := range p.Jobs {
		p.Jobs[i].Fails = 1
	}
}

// untilStart has locks end as their jobs start.
func untilStart(p *Plan) {
	for i := range p.Jobs {
		p.Jobs[i].Unique.Until = troupe.UntilStart
	}
}

// limited has few jobs run at once, in all of a plan.
func limited(more func(*Plan)) func(*Plan) {
	return func(p *Plan) {
		p.Cluster, p.Peers, p.Limits = false, 0, []Limit{{AtOnce: 1, Keys: 2}, {Queue: "a", AtOnce: 2}}
		if more != nil {
			more(p)
		}
	}
}

// many has all jobs come at once into a queue in which one runs at a time.
func many(p *Plan) {
	p.Faults, p.Troubles, p.Limits = nil, nil, []Limit{{AtOnce: 1}}
	for i := range p.Jobs {
		j := &p.Jobs[i]
		j.Queue, j.After, j.In, j.Lasts, j.Items = "a", 0, 0, time.Second, 0
	}
}

// oneByOne has a job come while the one before it has run for a while.
func oneByOne(p *Plan) {
	many(p)
	for i := range p.Jobs {
		p.Jobs[i].After, p.Jobs[i].Lasts, p.Jobs[i].Fails = 1500*time.Millisecond, 10*time.Second, 0
	}
}

// broken has most jobs fail, under a breaker that the second failure opens.
func broken(p *Plan) {
	p.Cluster, p.Peers, p.Faults, p.Troubles, p.Limits = false, 0, nil, nil, []Limit{{AtOnce: 3, Breaker: Breaker{Failures: 2, Rest: 3 * time.Second}}}
	for i := range p.Jobs {
		j := &p.Jobs[i]
		j.Items, j.Fails, j.Lasts, j.Kills = 0, 1+i%2, min(j.Lasts, 2*time.Second), Innocent
	}
}

// withRuby has Ruby take what limits have let in, while long jobs run.
func withRuby(p *Plan) {
	limited(long)(p)
	p.Peers, p.Limits = 1, []Limit{{AtOnce: 2}}
	for i := range p.Jobs {
		p.Jobs[i].Lasts *= 2
	}
}

// rated has few jobs start in a time.
func rated(p *Plan) {
	p.Faults = nil
	p.Cluster, p.Peers, p.Limits = false, 0, []Limit{{Rate: 1}}
}

// long has jobs run for longer than a slot lives.
func long(p *Plan) {
	p.Faults = nil
	for i := range p.Jobs {
		p.Jobs[i].Lasts, p.Jobs[i].Items = 2*slotLife, 0
	}
}

// children has every job push with its ack.
func children(p *Plan) {
	for i := range p.Jobs {
		p.Jobs[i].Pushes, p.Jobs[i].Links, p.Jobs[i].Items = 1+i%3, i%2, 0
	}
	late(p)
}

// items has every job be iterable.
func items(p *Plan) {
	p.Cluster, p.Peers = false, 0
	for i := range p.Jobs {
		p.Jobs[i].Pushes, p.Jobs[i].Links, p.Jobs[i].Items, p.Jobs[i].Lasts = 0, 0, 6, 12*time.Second
	}
	for place := range p.Fleet {
		for step := 1; step <= 12; step++ {
			p.Faults = append(p.Faults, Fault{Place: place, Step: step, OfPushes: true, Kind: []Kind{CutAfter, CutAfter, Kill}[step%3], For: 100 * time.Millisecond})
		}
	}
}

// spoiled has every job push, into keys that are of a wrong type for a while.
func spoiled(p *Plan) {
	children(p)
	for i := range 6 {
		p.Troubles = append(p.Troubles, Trouble{At: time.Duration(i) * 2 * time.Second, For: time.Second, Key: troubled(nil)[i%4]})
	}
}

func wrapped(wrap func(fetch.Isolator, fetch.Env) fetch.Fetcher) fetch.Factory {
	return func(env fetch.Env) (fetch.Fetcher, error) {
		f, err := fetch.NewReliable(env)
		if err != nil {
			return nil, err
		}
		return wrap(f.(fetch.Isolator), env), nil
	}
}

// ackFirst acks what it has taken before it hands it out.
type ackFirst struct{ fetch.Isolator }

func (f *ackFirst) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	units, err := f.Isolator.Take(ctx, n, acks)
	if err == nil && len(units) > 0 {
		_, err = f.Isolator.Take(ctx, 0, units)
	}
	return units, err
}

// popFirst takes a job off its queue, and then puts it back to be taken.
type popFirst struct {
	fetch.Isolator
	env fetch.Env
}

func (f *popFirst) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	for _, entry := range f.env.Queues.List() {
		queue := entry.Queue
		if payload, err := f.env.Redis.RPop(ctx, keys.Queue(queue)).Result(); err == nil {
			f.env.Redis.RPush(ctx, keys.Queue(queue), payload)
		}
	}
	return f.Isolator.Take(ctx, n, acks)
}

// ackThenPut acks a job that leaves the slot of its queue, and then writes it.
type ackThenPut struct {
	fetch.Isolator
	env fetch.Env
}

func (f *ackThenPut) Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	if redisconn.OnCluster(f.env.Redis) {
		for _, m := range moves {
			if m.To == fetch.ToRetry {
				_, _ = f.Take(ctx, 0, []fetch.Unit{m.Unit})
				f.env.Redis.ZAdd(ctx, keys.Retry, redis.Z{Score: m.Score, Member: m.Payload})
			}
		}
	}
	return f.Isolator.Settle(ctx, moves)
}

// crossing moves a job from one queue to another.
type crossing struct {
	fetch.Isolator
	env fetch.Env
}

func (f *crossing) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	if redisconn.OnCluster(f.env.Redis) {
		f.env.Redis.LMove(ctx, keys.Queue("a"), keys.Queue("b"), "right", "left")
	}
	return f.Isolator.Take(ctx, n, acks)
}

// effector is what the engine's fetcher is besides.
type effector interface {
	fetch.Isolator
	fetch.Effector
}

// oblivious does not know at its next attempt what it has heard of a stay.
type oblivious struct{ effector }

func (f *oblivious) Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	moves = slices.Clone(moves)
	for i := range moves {
		if stay := moves[i].Stay; stay != nil {
			moves[i].Stay = new(fetch.Stay)
			defer func() { *stay = *moves[i].Stay }()
		}
	}
	return f.effector.Settle(ctx, moves)
}

// keeper says of a stay that frees a lock that it was carried out.
type keeper struct{ effector }

func (f *keeper) Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	moves = slices.DeleteFunc(slices.Clone(moves), func(m fetch.Move) bool {
		frees := m.To == fetch.ToStay && m.Effects.Lock != nil
		if frees {
			m.Stay.Done = true
		}
		return frees
	})
	if len(moves) == 0 {
		return make([]fetch.Result, 1), nil
	}
	return f.effector.Settle(ctx, moves)
}

// silent acks jobs without what they have pushed.
type silent struct{ effector }

func (f *silent) Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	moves = slices.Clone(moves)
	for i := range moves {
		if moves[i].To == fetch.ToNone {
			moves[i].Effects = nil
		}
	}
	return f.effector.Settle(ctx, moves)
}

// forgetful acks what it has handed out before: it takes it for done.
type forgetful struct {
	fetch.Isolator
	seen map[string]bool
}

func (f *forgetful) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	units, err := f.Isolator.Take(ctx, n, acks)
	var fresh, known []fetch.Unit
	for _, u := range units {
		if f.seen[string(u.Payload)] {
			known = append(known, u)
		} else {
			fresh = append(fresh, u)
		}
		f.seen[string(u.Payload)] = true
	}
	if len(known) > 0 {
		_, _ = f.Isolator.Take(ctx, 0, known)
	}
	return fresh, err
}

// hasty says that a Take has ended while it is still under way: its units come
// with the next Take.
type hasty struct {
	fetch.Isolator
	ended chan []fetch.Unit
}

func (f *hasty) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	if f.ended == nil {
		if n == 0 {
			return f.Isolator.Take(ctx, n, acks)
		}
		ended := make(chan []fetch.Unit, 1)
		f.ended = ended
		go func() {
			units, _ := f.Isolator.Take(context.WithoutCancel(ctx), n, acks)
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

// edit is a change of one line of a script.
type edit struct{ script, line, by string }

// instead changes lines of scripts.
func instead(edits ...edit) func(*world, []string) []string {
	changed := map[string]string{} // by name
	for _, s := range scripts() {
		src := s.src
		for _, e := range edits {
			if e.script != s.name {
				continue
			}
			if strings.Count(src, e.line) != 1 {
				panic("script " + s.name + " has not one line with " + e.line)
			}
			src = strings.Replace(src, e.line, e.by, 1)
		}
		if src != s.src {
			changed[s.name] = src
		}
	}
	for _, e := range edits {
		if changed[e.script] == "" {
			panic("no script " + e.script)
		}
	}
	return func(_ *world, words []string) []string {
		if src := changed[script(words)]; src != "" {
			return append([]string{"EVAL", src}, words[2:]...)
		}
		return words
	}
}

// all puts in several bugs, whose scripts may be the same.
func all(bugs ...func(*world, []string) []string) func(*world, []string) []string {
	return func(w *world, words []string) []string {
		for _, b := range bugs {
			words = b(w, words)
		}
		return words
	}
}
