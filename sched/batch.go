package sched

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/cut"
	"github.com/troupehq/troupe/internal/joblog"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/moving"
	"github.com/troupehq/troupe/internal/notajob"
)

// batch sorts members by what is to become of them.
type batch struct {
	s   *Scheduler
	set Set
	cur *cursor
	now time.Time

	groups []group // dying, dropped, then one for each queue
	tried  int     // members given to the script
	stay   int     // members that remain in front of the rest
}

// The first groups of a batch.
const (
	dying = iota
	dropped
	lists
)

// group is what shares a destination.
type group struct {
	key, queue string // "" for the dropped
	members    []any  // *string, which go-redis writes without another allocation
	payloads   []any  // likewise
}

func (b *batch) sort(ctx context.Context, member string) error {
	left, known := b.cur.held.has(member, b.now)
	if left {
		b.stay++
		return nil
	}
	b.cur.trying = member
	p, err := troupe.ParsePayload([]byte(member))
	if err != nil {
		b.bury(member, new(troupe.Payload), err, known)
		return nil
	}
	out, err := b.s.cfg.Client.Prepare(ctx, p, b.now)
	var fault *client.MiddlewareError
	switch {
	case err == nil && out != nil:
		b.push(member, out)
	case err == nil:
		b.put(dropped, member, "")
	case errors.As(err, &fault) && ctx.Err() == nil:
		b.stay++
		if b.cur.held.add(member, b.now) {
			line := b.line(b.s.cfg.Logger.Error(), p).Strs("backtrace", troupe.Backtrace(err)) //nolint:zerologlint // joblog.Err returns it
			joblog.Err(line, err).Msg("job left where it is: client middleware failed")
		}
	case fault == nil && errors.As(err, new(*client.FieldError)):
		b.bury(member, p, err, known)
	default: // the context has ended, or the client was set up wrongly
		b.cur.trying = ""
		return err
	}
	return nil
}

func (b *batch) bury(member string, p *troupe.Payload, reason error, known bool) {
	if !known {
		joblog.Err(b.line(b.s.cfg.Logger.Warn(), p).Int("bytes", len(member)), reason).Msg("not a valid job: moving it to the dead set") //nolint:zerologlint // joblog.Err returns it
	}
	b.put(dying, member, string(notajob.Keep([]byte(member), "", b.now, b.s.cfg.Timestamps)))
}

func (b *batch) line(e *zerolog.Event, p *troupe.Payload) *zerolog.Event {
	return e.Str("set", string(b.set)).Str("class", cut.Text(p.DisplayClass())).Str("jid", cut.Text(p.JID()))
}

func (b *batch) put(i int, member, payload string) {
	g := &b.groups[i]
	g.members, g.payloads = append(g.members, &member), append(g.payloads, &payload)
	b.tried++
}

func (b *batch) push(member string, p *troupe.Payload) {
	queue := p.Queue()
	i := slices.IndexFunc(b.groups, func(g group) bool { return g.queue == queue })
	if i < lists {
		i = len(b.groups)
		b.groups = append(b.groups, group{key: keys.Queue(queue), queue: queue})
	}
	text := p.Bytes()
	b.put(i, member, unsafe.String(unsafe.SliceData(text), len(text)))
}

// reverse turns the order in which the members are moved.
func (b *batch) reverse() {
	for _, g := range b.groups {
		slices.Reverse(g.members)
		slices.Reverse(g.payloads)
	}
}

// apply runs the script and sorts out who refused.
func (b *batch) apply(ctx context.Context) (out Promoted, err error) {
	if b.tried == 0 {
		return out, nil
	}
	b.groups[dying].key = keys.Dead
	b.cur.held.remove(b.groups[dropped].members)
	if moving.Needed(b.s.cfg.Redis) {
		return b.applyOnCluster(ctx)
	}
	names, args := b.arguments()
	ctx, cancel := context.WithTimeout(ctx, promoteTimeout)
	defer cancel()
	reply, err := moveScript.Run(ctx, b.s.cfg.Redis, names, args...).Slice()
	if err == nil && len(reply) != 2*len(b.groups) {
		err = fmt.Errorf("move.lua: got %d values, want %d", len(reply), 2*len(b.groups))
	}
	if err != nil {
		return out, err
	}
	for i, g := range b.groups {
		n, _ := reply[2*i].(int64)
		fault, _ := reply[2*i+1].(string)
		if n > 0 && fault != "" {
			b.s.cfg.Logger.Error().Str("queue", cut.Text(g.queue)).Str("fault", fault).Msg("jobs moved, but their queue is not listed in queues")
			fault = ""
		}
		out.count(i, int(n))
		if fault != "" {
			err = errors.Join(err, b.refused(g, errors.New(fault)))
		} else {
			b.cur.held.remove(g.members)
		}
	}
	return out, err
}

// count adds n members of group i.
func (out *Promoted) count(i, n int) {
	switch i {
	case dying:
		out.Buried += n
	case dropped:
		out.Dropped += n
	default:
		out.Moved += n
	}
}

// refused deals with a destination that took nothing. One that is a key of another
// type is a fault of its own; any other refusal (no memory, no master) is the
// state of Redis, and an error.
func (b *batch) refused(g group, fault error) error {
	if !strings.Contains(fault.Error(), "WRONGTYPE") {
		b.cur.held.remove(g.members)
		return fmt.Errorf("%s: %w", cut.Text(g.key), fault)
	}
	b.stay += len(g.members)
	news := 0
	for _, member := range g.members {
		if b.cur.held.add(*member.(*string), b.now) {
			news++
		}
	}
	if news > 0 {
		b.s.cfg.Logger.Error().Str("set", string(b.set)).Str("key", cut.Text(g.key)).Int("jobs", news).Str("fault", fault.Error()).
			Msg("jobs left where they are: their destination is a key of another type")
	}
	return nil
}

// death is what a member that goes to the dead set needs: its score there, and the
// trim of the set (oldest score, number).
func (s *Scheduler) death(now time.Time) []any {
	return []any{troupe.FormatScore(troupe.Score(now)), troupe.FormatScore(troupe.Score(now.Add(-s.cfg.DeadTimeout))), s.cfg.DeadMax}
}

// arguments lays the batch out as move.lua reads it.
func (b *batch) arguments() (names []string, args []any) {
	names, args = []string{string(b.set), keys.Queues, keys.Dead}, b.s.death(b.now)
	for i, g := range b.groups {
		if i >= lists {
			names, args = append(names, g.key), append(args, g.queue)
		}
		args = append(append(args, len(g.members)), g.members...)
		if i != dropped {
			args = append(args, g.payloads...)
		}
	}
	return names, args
}

// beaten tells whether all that was tried had been moved by somebody else.
func (b *batch) beaten(out Promoted) bool {
	return b.tried > 0 && out.Moved+out.Buried+out.Dropped == 0 && b.stay == 0
}

// applyOnCluster is apply where the set, the queues and dead are in slots of
// their own: claim, write, finish; see package moving.
func (b *batch) applyOnCluster(ctx context.Context) (out Promoted, err error) {
	rdb, set := b.s.cfg.Redis, string(b.set)
	var all []any
	for _, g := range b.groups {
		all = append(all, g.members...)
	}
	claimed, err := moving.Claim(ctx, rdb, set, all)
	if err != nil {
		return out, err
	}
	pipe, at := rdb.Pipeline(), 0
	here, sent := make([][]moving.Member, len(b.groups)), make([]*redis.IntCmd, len(b.groups))
	for i, g := range b.groups {
		var texts []any
		for k := range g.members {
			if m, ok := claimed[at+k]; ok {
				here[i], texts = append(here[i], m), append(texts, g.payloads[k])
			}
		}
		at += len(g.members)
		switch {
		case len(texts) == 0 || i == dropped:
		case i == dying:
			sent[i] = b.toDead(ctx, pipe, texts)
		default:
			pipe.SAdd(ctx, keys.Queues, g.queue) // a list for people: the job moves even if that is broken
			sent[i] = pipe.LPush(ctx, g.key, texts...)
		}
	}
	if pipe.Len() > 0 {
		_, _ = pipe.Exec(ctx) // the errors are in the commands
	}

	// Where no answer came it is not known what became of the members: they stay
	// claimed, and the next mover takes them on after the deadline.
	var arrived, refused []moving.Member
	for i, g := range b.groups {
		var fault error
		if sent[i] != nil {
			fault = sent[i].Err()
		}
		if fault == nil {
			arrived = append(arrived, here[i]...)
			out.count(i, len(here[i]))
			b.cur.held.remove(g.members)
			continue
		}
		if errors.As(fault, new(redis.Error)) {
			refused = append(refused, here[i]...)
		}
		err = errors.Join(err, b.refused(g, fault))
	}
	// What was written must not stay claimed because a stop begins just now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	return out, errors.Join(err, moving.Finish(ctx, rdb, set, arrived, refused))
}

// toDead queues the way of texts into the dead set.
func (b *batch) toDead(ctx context.Context, pipe redis.Pipeliner, texts []any) *redis.IntCmd {
	death := b.s.death(b.now)
	args := []any{"zadd", keys.Dead}
	for _, text := range texts {
		args = append(args, death[0], text)
	}
	cmd := redis.NewIntCmd(ctx, args...)
	_ = pipe.Process(ctx, cmd) // only queues it
	pipe.Do(ctx, "zremrangebyscore", keys.Dead, "-inf", death[1])
	pipe.ZRemRangeByRank(ctx, keys.Dead, 0, -int64(b.s.cfg.DeadMax))
	return cmd
}
