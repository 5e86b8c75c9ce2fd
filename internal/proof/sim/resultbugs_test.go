package sim

import (
	"context"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/keys"
)

// resultBugs are those that are to be found by what is kept of jobs, and by who waits for them.
func resultBugs() []seededBug {
	return []seededBug{
		{"a result of a run that is fenced", bug{plan: kept(away), script: instead(edit{"settle", "if string.sub(mark, 1, 6) == 'fenced' then", `local fenced = string.sub(mark, 1, 6) == 'fenced'
for i = 3, #ARGV - 4 do
  if fenced and ARGV[i] == 'keep' and ARGV[i + 1] == '3' then call('SET', KEYS[tonumber(ARGV[i + 2])], ARGV[i + 4], 'PX', ARGV[i + 3]) end
end
if fenced then`})}, "has not ended, and .* is kept"},
		{"a result that is kept before its step", bug{plan: kept(nil), fetcher: wrapped(func(f fetch.Isolator, env fetch.Env) fetch.Fetcher {
			return &early{f.(effector), env}
		})}, "has not ended, and .* is kept"},
		{"a result that is published and not kept", bug{plan: kept(nil), script: instead(edit{"settle", "local err = full or text(pcall('SET', key, ARGV[at + 4], 'PX', ARGV[at + 3]))", "local err = nil"})}, "and \" \" is kept"},
		{"an end that is not published", bug{plan: kept(nil), script: instead(edit{"settle", "pcall('PUBLISH', key, ARGV[at + 4])", ""})}, "somebody waits for"},
		{"a retry that is an end", bug{plan: kept(failing), fetcher: wrapped(func(f fetch.Isolator, _ fetch.Env) fetch.Fetcher { return &final{f.(effector)} })}, "has not ended, and .* is kept"},
	}
}

// kept has the ends of all jobs be kept, and somebody wait for each.
func kept(more func(*Plan)) func(*Plan) {
	return func(p *Plan) {
		p.Cluster, p.Peers, p.Troubles = false, 0, nil
		for i := range p.Jobs {
			j := &p.Jobs[i]
			j.Result, j.Kept, j.Items, j.Kills, j.Unique = true, true, 0, Innocent, Unique{}
			p.Waits = append(p.Waits, Wait{Job: i + 1})
		}
		if more != nil {
			more(p)
		}
	}
}

// away has a process be away for longer than its lease as it settles jobs.
func away(p *Plan) {
	p.Fleet = append(p.Fleet[:1:1], Process{Capsules: []int{2}, Weight: 3})
	p.Faults = nil
	for step := range 6 {
		p.Faults = append(p.Faults, Fault{Step: step, OfPushes: true, Kind: Pause, For: 3 * lease})
	}
}

// early keeps results before the step that settles their jobs.
type early struct {
	effector
	env fetch.Env
}

func (f *early) Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	for _, m := range moves {
		if e := m.Effects; e != nil && e.Result != nil {
			f.env.Redis.Eval(ctx, "return redis.call('SET', KEYS[1], ARGV[1], 'EX', 100)", []string{e.Result.Key}, e.Result.Value)
		}
	}
	return f.effector.Settle(ctx, moves)
}

// final keeps an end of jobs that are to be retried.
type final struct{ effector }

func (f *final) Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	moves = append([]fetch.Move(nil), moves...)
	for i := range moves {
		if m := &moves[i]; m.To == fetch.ToRetry {
			e := fetch.Effects{}
			if m.Effects != nil {
				e = *m.Effects
			}
			e.Result = &fetch.KeptEnd{Key: keys.Result(jidOf(m.Unit.Payload)), Value: []byte(`{"outcome":"dead","at":1}`), TTL: time.Hour}
			m.Effects = &e
		}
	}
	return f.effector.Settle(ctx, moves)
}

func jidOf(payload []byte) string {
	p, err := troupe.ParsePayload(payload)
	if err != nil {
		return ""
	}
	return p.JID()
}
