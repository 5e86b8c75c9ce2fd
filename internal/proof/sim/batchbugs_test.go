package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// seededBug is one of TestSeededBugsAreFound.
type seededBug struct {
	name  string
	bug   bug
	found string // a pattern of what the run says
}

// batchBugs are those that the account of batches is to find.
func batchBugs() []seededBug {
	in := func(line, by string) func(*world, []string) []string {
		return all(instead(edit{"settle", line, by}), instead(edit{"joinbatch", line, by}), instead(edit{"countbatch", line, by}))
	}
	return []seededBug{
		{"a job that is counted behind its step", bug{plan: batched(nil), fetcher: wrapped(func(f fetch.Isolator, env fetch.Env) fetch.Fetcher {
			return &apart{f.(effector), env}
		})}, "is counted by countbatch|behind settle, expected"},
		{"a callback of an open batch", bug{plan: batched(open), script: in("if closed and unrun <= 0", "if unrun <= 0")}, "fired .* expected|too early"},
		{"a callback before the last job", bug{plan: batched(nil), script: in("if closed and unrun <= 0", "if closed and unrun <= 1")}, "fired .* expected|too early"},
		{"a retry that counts as the end", bug{plan: batched(nil), script: in("if event == 'done' and pcall('SETBIT', key", "if (event == 'done' or event == 'ran') and pcall('SETBIT', key")}, "done .* expected"},
		{"a job that counts twice", bug{plan: batched(nil), script: in("if event ~= 'wait' and pcall('SETBIT', key .. ':ran', index, '1') == 0 then", "if event ~= 'wait' and pcall('SETBIT', key .. ':ran', index, '1') then")}, "and it says that"},
		{"a parent that is not told", bug{plan: batched(nil), script: in("if up and (complete or success) then", "if false then")}, "expected total"},
		{"a callback that its parent does not wait for", bug{plan: batched(nil), script: in("local above = up and fields(batchKey(up))", "local above")}, "expected total"},
		{"a callback that is pushed again", bug{plan: batched(nil), script: in("  pcall('HSET', key, event, exact(seconds()))\n", "")}, "fired .* expected"},
		{"a callback that is marked and refused", bug{plan: batched(refusing), script: in("if text(pcall('LPUSH', 'queue:' .. f[2], job .. '}')) then return false end", "pcall('LPUSH', 'queue:' .. f[2], job .. '}')")}, "fired .* expected"},
		{"a job that is counted in a batch which knows nothing of it", bug{plan: batched(fallingBack), script: in("if tonumber(index) < tonumber(f[3]) then", "if true then")}, "and it says that|too early"},
		{"a callback that is not pushed behind a fallback", bug{plan: batched(fallingBack), script: in("if closed and unrun <= 0 and not completed then complete", "if false then complete")}, "complete of b1 is not pushed by"},
		{"a job dead of poison that its batch does not count", bug{plan: batched(poisonous), script: instead(edit{"reroute", "if batch then count(batch, {index}, 'died', 0) end", ""})}, "behind reroute, expected"},
		{"a job that is counted out and does not count as done", bug{plan: batched(besideRuby), script: instead(edit{"countbatch", "count(id, {unpack(ARGV, 3)}, event, 0)", "count(id, {unpack(ARGV, 3)}, 'ran', 0)"})}, "behind countbatch, expected"},
		{"a dead job that is counted out", bug{plan: batched(besideRuby), script: func(_ *world, words []string) []string {
			if len(words) > 1 && words[1] == keys.Dead && strings.HasPrefix(strings.ToLower(words[0]), "z") {
				words = slices.Clone(words)
				words[1] = "nothing"
			}
			return words
		}}, "is counted by countbatch as done, and stands in dead"},
		{"a batch that lives for ever", bug{plan: batched(nil), script: in("do pcall('PEXPIRE', batchKey(id) .. part, whole((at - seconds()) * 1000)) end", "do end")}, "lives for"},
		{"a batch whose cancellation is not heard", bug{plan: batched(calledOff), script: func(_ *world, words []string) []string {
			if strings.EqualFold(words[0], "zrangebyscore") && words[1] == keys.BatchesCancelled {
				return []string{"ZRANGEBYSCORE", "nothing", "0", "1"}
			}
			return words
		}}, "was cancelled .* ago"},
		{"a cancelled batch that its parent waits for", bug{plan: batched(calledOff), script: in("if up then count(up, {index}, 'done', 0) end", "")}, "expected total"},
	}
}

// batched has a batch within a batch, and jobs that fail and die.
func batched(more func(*Plan)) func(*Plan) {
	return func(p *Plan) {
		p.Cluster, p.Peers, p.Jobs, p.Faults, p.Troubles, p.Revives = false, 0, nil, nil, nil, true
		on := func() map[int]*Job { return map[int]*Job{0: {Queue: "a"}, 1: {Queue: "b"}, 2: {Queue: "a"}} }
		n := int(p.Order % 3)
		p.Batches = []Batch{{
			Jobs:  []Job{{Queue: "a", Fails: 2, Lasts: time.Second}, {Queue: "b", Dies: n == 1}, {Queue: "a", Grows: n}},
			Below: []Batch{{Jobs: []Job{{Queue: "b", Lasts: 2 * time.Second}, {Queue: "a", Dies: n == 2}}, On: on()}},
			On:    on(),
		}}
		if more != nil {
			more(p)
		}
	}
}

// open leaves batches open for a while.
func open(p *Plan) {
	k := &p.Batches[0]
	for i := range k.Jobs {
		k.Jobs[i] = Job{Queue: "a"}
	}
	k.Open, k.Closes = true, 5*time.Second
}

// fallingBack has Redis fall back while jobs enter an open batch and run.
func fallingBack(p *Plan) {
	k := &p.Batches[0]
	k.Open, k.Grows, k.Closes, k.Below = true, 3, 600*time.Millisecond, nil
	k.Jobs = []Job{{Queue: "a", Lasts: 6 * time.Second}}
	for i := range p.Fleet {
		p.Fleet[i].Capsules = []int{3}
	}
	p.Faults = []Fault{{Step: 6 + int(p.Order%16), OfJobs: true, Kind: Failover, For: 10 * time.Millisecond, Back: 1 + int(p.Order%7)}}
}

// poisonous has a job of a batch kill.
func poisonous(p *Plan) {
	p.Batches[0].Jobs[1] = Job{Queue: "b", Kills: KillsAtStart}
}

// besideRuby has Ruby run some jobs of a batch, while others die.
func besideRuby(p *Plan) {
	p.Peers, p.Revives = 1, false
	for range 4 {
		p.Batches[0].Jobs = append(p.Batches[0].Jobs, Job{Queue: "a", Dies: true, Lasts: time.Second}, Job{Queue: "b", Lasts: time.Second})
	}
}

// refusing has the queue of callbacks be of a wrong type when they are due.
func refusing(p *Plan) {
	p.Revives = false
	k := &p.Batches[0]
	k.Below, k.Jobs = nil, []Job{{Queue: "b", Lasts: 3 * time.Second}}
	p.Troubles = []Trouble{{At: time.Second, For: 4 * time.Second, Key: keys.Queue("a")}}
}

// calledOff has a batch be cancelled while its jobs wait.
func calledOff(p *Plan) {
	for i := range p.Fleet {
		p.Fleet[i].Capsules = []int{1}
	}
	k := &p.Batches[0]
	k.Jobs, k.Below[0].Cancels = nil, time.Second
	for range 8 {
		k.Below[0].Jobs = append(k.Below[0].Jobs, Job{Queue: "a", Lasts: 9 * time.Second})
	}
}

// apart counts jobs in their batches behind the step that settles them.
type apart struct {
	effector
	env fetch.Env
}

func (f *apart) Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	moves = append([]fetch.Move(nil), moves...)
	var counts []job.Count
	for i := range moves {
		if e := moves[i].Effects; e != nil && e.Count != nil {
			own := *e
			counts, own.Count = append(counts, *e.Count), nil
			moves[i].Effects = &own
		}
	}
	results, err := f.effector.Settle(ctx, moves)
	if err == nil {
		err = job.CountBatch(ctx, f.env.Redis, counts...)
	}
	return results, err
}
