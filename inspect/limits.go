package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/scores"
)

// Limit is what a limit allows, and whom, as it was when it was read. On a Redis Cluster each queue has limits of its own.
type Limit struct {
	Name  string // as people write it
	Queue string // whose limit it is on a Redis Cluster, else ""

	Allows     Allowance
	Pinned     bool      // it was set by hand
	Configured Allowance // what the configuration says, of one that is Pinned

	// Rules are what it counts together, those that have slots or hold jobs: the one that holds most first.
	Rules []*LimitRule

	text string
}

// Taken is how many slots all its rules have given.
func (l *Limit) Taken() (n int64) {
	for _, r := range l.Rules {
		n += r.Taken
	}
	return n
}

// Held is how many jobs all its rules hold.
func (l *Limit) Held() (n int64) {
	for _, r := range l.Rules {
		n += r.Held
	}
	return n
}

// Oldest is the enqueued_at of the oldest job that it holds; the zero time if it holds none.
func (l *Limit) Oldest() (t time.Time) {
	for _, r := range l.Rules {
		if t.IsZero() || !r.Oldest.IsZero() && r.Oldest.Before(t) {
			t = r.Oldest
		}
	}
	return t
}

// LimitRule is what a limit counts together: all of its jobs, or those of one key.
type LimitRule struct {
	ID    string // NAME or NAME:KEY, as Redis has it
	Name  string // of the limit, as people write it
	Key   string // "" of a limit without keys
	Queue string // see Limit.Queue

	// Slots are those that are taken, the first to end first, at most SlotsShown; Taken is how many there are. Of a rate they are of jobs
	// that were let in and have not started yet.
	Slots []LimitSlot
	Taken int64

	Held   int64
	Oldest time.Time // enqueued_at of the oldest job that it holds; the zero time if it holds none

	// Of a limit with a breaker: Failures are those in a row, while it is closed; Rests is when the rest ends, or has ended and waits for a
	// probe, the zero time while it is closed.
	Failures int64
	Rests    time.Time

	i     *Inspector
	base  string
	rest  bool   // it has a breaker
	slots string // their key
}

// LimitSlot is a slot of a limit.
type LimitSlot struct {
	JID  string    // of its job; behind it stands ~ and a receipt if that run was given up and goes on
	Ends time.Time // unless it is renewed
}

// HasSlot reports whether the job with that id has a slot now.
func (r *LimitRule) HasSlot(ctx context.Context, jid string) (bool, error) {
	err := orNone(r.i).db().ZRank(ctx, r.slots, jid).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, fmt.Errorf("limit %s: look for a slot: %w", r.ID, err)
	}
	return err == nil, nil
}

// Bounds of what is read of limits.
const (
	SlotsShown    = 100  // of a rule
	rulesShown    = 1000 // of all limits, or of each queue of a Redis Cluster
	slotScanPages = 200  // of keys, to find the rules that have slots
)

// Limits returns all limits, by name. It looks for slots among the names of 200,000 keys, and reads 1,000 rules: cut reports that there are more
// of one or the other.
func (i *Inspector) Limits(ctx context.Context) (all []*Limit, cut bool, err error) {
	all, cut, err = i.limits(ctx, "", "")
	if err != nil {
		return nil, false, fmt.Errorf("list limits: %w", err)
	}
	return all, cut, nil
}

// Limit returns a limit by the name that people write, on a Redis Cluster that of each queue that has it; ErrNotFound if there is none, and no
// job waits for one.
func (i *Inspector) Limit(ctx context.Context, name string) (all []*Limit, cut bool, err error) {
	all, cut, err = i.limits(ctx, job.RuleName(name), "")
	if err == nil && len(all) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, false, fmt.Errorf("read limit %.100q: %w", name, err)
	}
	return all, cut, nil
}

// LimitRule returns a limit, as Limit does, with the one rule NAME:KEY, or NAME for one without a key. A rule without slots and held jobs is there, too.
func (i *Inspector) LimitRule(ctx context.Context, rule string) ([]*Limit, error) {
	name, _, _ := strings.Cut(rule, ":")
	all, _, err := i.limits(ctx, name, rule)
	if err == nil && len(all) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read limit %.100q: %w", rule, err)
	}
	return all, nil
}

// limitBase is where limits are: of all queues, or of one on a Redis Cluster.
type limitBase struct{ key, queue string }

func (i *Inspector) limitBases(ctx context.Context) ([]limitBase, error) {
	if !redisconn.OnCluster(i.db()) {
		return []limitBase{{keys.LimitBase("", false), ""}}, nil
	}
	queues, err := i.members(ctx, keys.Queues)
	all := make([]limitBase, len(queues))
	for n, q := range queues {
		all[n] = limitBase{keys.LimitBase(q, true), q}
	}
	return all, err
}

// limits reads limits: all, or the one that rules have by that name, with one of its rules or all that are to be seen.
func (i *Inspector) limits(ctx context.Context, name, only string) (all []*Limit, cut bool, err error) {
	bases, err := i.limitBases(ctx)
	if err != nil {
		return nil, false, err
	}
	texts, holding := make([]*redis.MapStringStringCmd, len(bases)), make([]*redis.StringSliceCmd, len(bases))
	var cmds []redis.Cmder
	for n, b := range bases {
		texts[n] = redis.NewMapStringStringCmd(ctx, "hgetall", keys.Limits(b.key))
		holding[n] = redis.NewStringSliceCmd(ctx, "zrange", keys.HeldRules(b.key), 0, rulesShown)
		cmds = append(cmds, texts[n], holding[n])
	}
	if err := i.pipelined(ctx, cmds); err != nil {
		return nil, false, err
	}
	var rules []*LimitRule
	for n, b := range bases {
		known, found := map[string]*Limit{}, map[string]bool{}
		add := func(rule string) {
			of, _, _ := strings.Cut(rule, ":")
			if found[rule] || name != "" && of != name || only != "" && rule != only {
				return
			}
			found[rule] = true
			l := known[of]
			if l == nil {
				l = i.limit(b, of, "")
				known[of] = l
			}
			r := i.limitRule(b, rule, l.Allows.Throttled)
			r.rest = l.Allows.Breaker
			l.Rules = append(l.Rules, r)
		}
		for of, text := range texts[n].Val() {
			if name == "" || of == name {
				known[of] = i.limit(b, of, text)
				add(of)
			}
		}
		if only != "" && len(known) > 0 {
			add(only)
		}
		for k, rule := range holding[n].Val() {
			if k < rulesShown {
				add(rule)
			} else {
				cut = true
			}
		}
		if only == "" && len(known) > 0 {
			more, err := i.scanSlots(ctx, b, name, known, add)
			if err != nil {
				return nil, false, err
			}
			cut = cut || more
		}
		for _, l := range known {
			all, rules = append(all, l), append(rules, l.Rules...)
		}
	}
	if err := i.readRules(ctx, rules); err != nil {
		return nil, false, err
	}
	all = slices.DeleteFunc(all, func(l *Limit) bool {
		l.Rules = slices.DeleteFunc(l.Rules, func(r *LimitRule) bool {
			return r.ID != only && r.Taken == 0 && r.Held == 0 && r.Rests.IsZero() && r.Failures == 0
		})
		slices.SortFunc(l.Rules, func(a, b *LimitRule) int {
			return cmp.Or(cmp.Compare(b.Held, a.Held), cmp.Compare(b.Taken, a.Taken), cmp.Compare(a.ID, b.ID))
		})
		return !l.Allows.Defined() && l.Held() == 0
	})
	slices.SortFunc(all, func(a, b *Limit) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Queue, b.Queue)) })
	return all, cut, nil
}

func (i *Inspector) limit(b limitBase, name, text string) *Limit {
	l := &Limit{Name: job.NameOfRule(name), Queue: b.queue, text: text}
	now, from, pinned := strings.Cut(text, " pinned")
	l.Allows, l.Pinned = allowanceOf(now), pinned
	if all := allowanceOf(text); all.Breaker {
		l.Allows.Breaker, l.Allows.Failures, l.Allows.Rest = true, all.Failures, all.Rest
	}
	if pinned {
		l.Configured = allowanceOf(strings.TrimSpace(from))
	}
	return l
}

func (i *Inspector) limitRule(b limitBase, rule string, throttled bool) *LimitRule {
	name, key, _ := strings.Cut(rule, ":")
	r := &LimitRule{ID: rule, Name: job.NameOfRule(name), Key: key, Queue: b.queue, i: i, base: b.key, slots: keys.Slots(b.key, rule)}
	if throttled {
		r.slots = keys.Throttled(r.Name, key)
	}
	return r
}

// scanSlots finds the rules that have slots by the names of their keys; more reports that it has not looked at all keys.
func (i *Inspector) scanSlots(ctx context.Context, b limitBase, name string, known map[string]*Limit, add func(rule string)) (more bool, err error) {
	begin := keys.Slots(b.key, name)
	globs := map[string]string{begin: ""} // what stands in front of the rest of the rule -> the rest begins with
	if name != "" {
		globs = map[string]string{begin + ":": name + ":"}
	}
	for of, l := range known {
		if l.Allows.Breaker {
			globs[keys.Rest(b.key, "")] = ""
		}
		if l.Allows.Throttled {
			globs[keys.Throttled(l.Name, "")+":"] = of + ":"
		}
	}
	masters, err := i.masters(ctx)
	if err != nil {
		return false, err
	}
	for prefix, rest := range globs {
		found := 0
		for _, master := range masters {
			cursor := uint64(0)
			for n := 0; n == 0 || cursor != 0; n++ {
				if n == slotScanPages || found >= rulesShown {
					more = true
					break
				}
				var page []string
				if page, cursor, err = master.Scan(ctx, cursor, literal.Replace(prefix)+"*", lockPage).Result(); err != nil {
					return false, err
				}
				for _, key := range page {
					if suffix, ok := strings.CutPrefix(key, prefix); ok {
						found++
						add(rest + suffix)
					}
				}
			}
		}
	}
	return more, nil
}

// readRules reads slots and what is held.
func (i *Inspector) readRules(ctx context.Context, rules []*LimitRule) error {
	if len(rules) == 0 {
		return nil
	}
	score := scores.Format(scores.Of(time.Now()))
	const each = 3
	var cmds []redis.Cmder
	for _, r := range rules {
		cmds = append(cmds, redis.NewIntCmd(ctx, "zcount", r.slots, score, "+inf"),
			redis.NewZSliceCmd(ctx, "zrange", r.slots, score, "+inf", "byscore", "limit", 0, SlotsShown, "withscores"),
			redis.NewIntCmd(ctx, "zcard", keys.Held(r.base, r.ID)))
	}
	if err := i.pipelined(ctx, cmds); err != nil {
		return err
	}
	if err := i.readRests(ctx, rules); err != nil {
		return err
	}
	var readings []reading
	var holding []*LimitRule
	for n, r := range rules {
		r.Taken, r.Held = cmds[each*n].(*redis.IntCmd).Val(), cmds[each*n+2].(*redis.IntCmd).Val()
		for _, z := range cmds[each*n+1].(*redis.ZSliceCmd).Val() {
			jid, _ := z.Member.(string)
			r.Slots = append(r.Slots, LimitSlot{jid, secondsAt(z.Score)})
		}
		if r.Held > 0 {
			holding, readings = append(holding, r), append(readings, position(fromLow, keys.Held(r.base, r.ID), 0, 1, 1))
		}
	}
	windows, err := i.readEach(ctx, readings)
	for n, w := range windows {
		if len(w.all) > 0 {
			holding[n].Oldest = secondsAt(w.all[0].score)
		}
	}
	return err
}
