package sched

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/logs"
	"github.com/troupehq/troupe/internal/moving"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/words"
)

// batch sorts members by what is to become of them.
type batch struct {
	s   *Scheduler
	set string
	cur *cursor
	now time.Time

	groups []*moving.Group // dying, dropped, then one for each queue; of *string, which cost go-redis no allocation
	tried  int             // members given to the script
	stay   int             // members that remain in front of the rest
	out    Promoted

	deaths []func() // lines of the log for those of dying, once they have moved
}

// The first groups of a batch.
const (
	dying = iota
	dropped
	lists
)

func (b *batch) sort(ctx context.Context, member string) error {
	left, known := b.cur.stuck.has(member, b.now)
	if left {
		b.stay++
		return nil
	}
	p, err := troupe.ParsePayload([]byte(member))
	if err != nil {
		b.die(member, new(troupe.Payload), err, known)
		return nil
	}
	if prepare := b.s.prepare(b.set, p); prepare != nil {
		if out, err := prepare(p, b.now); err != nil {
			b.die(member, p, err, known)
		} else {
			b.push(member, out)
		}
		return nil
	}
	b.cur.trying = member
	out, err := b.s.cfg.Client.Prepare(ctx, p, b.now)
	b.cur.trying = ""
	refused := errchain.Has[*client.MiddlewareError](err)
	switch {
	case err == nil && out != nil:
		b.push(member, out)
	case err == nil:
		b.put(dropped, member, "")
	case refused && ctx.Err() == nil:
		b.stay++
		if b.cur.stuck.add(member, b.now) {
			line := b.line(b.s.cfg.Logger.Error(), p).Strs("backtrace", errchain.Backtrace(err)) //nolint:zerologlint // logs.Err returns it
			logs.Err(line, err).Msg("job left where it is: client middleware failed")
		}
	case !refused && errchain.Has[*client.FieldError](err):
		b.die(member, p, err, known)
	default: // the context has ended, or the client was set up wrongly
		return err
	}
	return nil
}

// prepare is what Config.Prepare says of p.
func (s *Scheduler) prepare(set string, p *troupe.Payload) func(*troupe.Payload, time.Time) (*troupe.Payload, error) {
	if s.cfg.Prepare == nil {
		return nil
	}
	return s.cfg.Prepare(set, p.Queue())
}

func (b *batch) die(member string, p *troupe.Payload, reason error, known bool) {
	if !known {
		b.deaths = append(b.deaths, func() {
			logs.Err(b.line(b.s.cfg.Logger.Warn(), p).Int("bytes", len(member)), reason).Msg("not a valid job: moved to the dead set") //nolint:zerologlint // logs.Err returns it
		})
	}
	b.put(dying, member, string(job.KeepNotAJob([]byte(member), "", b.now, b.s.cfg.Timestamps)))
}

func (b *batch) line(e *zerolog.Event, p *troupe.Payload) *zerolog.Event {
	return e.Str("set", string(b.set)).Str("class", words.Text(p.DisplayClass())).Str("jid", words.Text(p.JID()))
}

func (b *batch) put(i int, member, payload string) {
	g := b.groups[i]
	g.Members, g.Payloads = append(g.Members, &member), append(g.Payloads, &payload)
	b.tried++
}

func (b *batch) push(member string, p *troupe.Payload) {
	queue := p.Queue()
	i := slices.IndexFunc(b.groups, func(g *moving.Group) bool { return g.Queue == queue })
	if i < lists {
		i = len(b.groups)
		b.groups = append(b.groups, &moving.Group{Key: keys.Queue(queue), Queue: queue})
	}
	text := p.Bytes()
	b.put(i, member, unsafe.String(unsafe.SliceData(text), len(text)))
}

// apply moves the members, and finds the queues or sets that refused theirs.
func (b *batch) apply(ctx context.Context) (err error) {
	switch {
	case b.tried == 0:
		return nil
	case redisconn.OnCluster(b.s.cfg.Redis):
		err = moving.Move(ctx, b.s.cfg.Redis, string(b.set), b.groups, b.s.death(b.now))
	default:
		err = b.move(ctx)
	}
	unsure := err != nil
	if g := b.groups[dying]; g.Moved == len(g.Members) { // else somebody else has moved some: which, nobody knows
		for _, tell := range b.deaths {
			tell()
		}
	}
	b.endJobs(ctx, b.groups[dropped], job.BatchDone)
	b.endJobs(ctx, b.groups[dying], job.BatchDied)
	counts := [...]*int{dying: &b.out.Dead, dropped: &b.out.Dropped, lists: &b.out.Moved}
	for i, g := range b.groups {
		*counts[min(i, lists)] += g.Moved
		switch {
		case g.Fault != nil:
			err = errors.Join(err, b.refused(g))
		case !unsure:
			b.cur.stuck.remove(g.Members)
		}
	}
	return err
}

// endJobs frees the locks of unique jobs that were dropped or have died, counts those of batches, and tells who waits for one. If somebody else has moved
// some of them, nobody knows which: then the leader finds the locks whose jobs are gone, and those of batches are missing there.
func (b *batch) endJobs(ctx context.Context, g *moving.Group, event job.BatchEvent) {
	if g.Moved < len(g.Members) {
		return
	}
	var counts []job.Count
	for _, member := range g.Members {
		raw := []byte(*member.(*string))
		p, err := troupe.ParsePayload(raw)
		if err != nil || !job.HasOwn(raw) {
			continue
		}
		if lock := job.LockOf(p, redisconn.OnCluster(b.s.cfg.Redis)); lock != nil && lock.EndsWithJob() {
			_, _ = job.FreeLock(ctx, b.s.cfg.Redis, lock.Key, lock.JID)
		}
		if event == job.BatchDone { // client middleware has stopped it
			job.KeepEnds(ctx, b.s.cfg.Redis, job.EndedDeleted, raw)
		}
		if in, ok := job.BatchOf(p); ok && !redisconn.OnCluster(b.s.cfg.Redis) {
			counts = append(counts, job.Count{InBatch: in, Event: event})
		}
	}
	_ = job.CountBatch(ctx, b.s.cfg.Redis, counts...)
}

// move runs the script.
func (b *batch) move(ctx context.Context) error {
	death := b.s.death(b.now)
	names, args := []string{string(b.set), keys.Queues, keys.Dead}, []any{death.Score, death.Trim.Text()}
	for i, g := range b.groups {
		if i >= lists {
			names, args = append(names, g.Key), append(args, g.Queue)
		}
		args = append(append(args, len(g.Members)), g.Members...)
		if i != dropped {
			args = append(args, g.Payloads...)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, promoteTimeout)
	defer cancel()
	reply, err := moveScript.Run(ctx, b.s.cfg.Redis, names, args...).Slice()
	if err == nil && len(reply) != 2*len(b.groups) {
		err = fmt.Errorf("move.lua: got %d values, want %d", len(reply), 2*len(b.groups))
	}
	if err != nil {
		return err
	}
	for i, g := range b.groups {
		moved, _ := reply[2*i].(int64)
		g.Moved = int(moved)
		switch fault, _ := reply[2*i+1].(string); {
		case fault != "" && moved > 0:
			b.s.cfg.Logger.Error().Str("queue", words.Text(g.Queue)).Str("fault", fault).Msg("jobs moved, but their queue is not listed in queues")
		case fault != "":
			g.Fault = errors.New(fault)
		}
	}
	return nil
}

// refused deals with a destination that took nothing. One that is a key of another
// type is a fault of its own; any other refusal (no memory, no master) is the
// state of Redis, and an error.
func (b *batch) refused(g *moving.Group) error {
	if !strings.Contains(g.Fault.Error(), "WRONGTYPE") {
		b.cur.stuck.remove(g.Members)
		return fmt.Errorf("%s: %w", words.Text(g.Key), g.Fault)
	}
	b.stay += len(g.Members)
	news := 0
	for _, member := range g.Members {
		if b.cur.stuck.add(*member.(*string), b.now) {
			news++
		}
	}
	if news > 0 {
		b.s.cfg.Logger.Error().Str("set", string(b.set)).Str("key", words.Text(g.Key)).Int("jobs", news).Str("fault", g.Fault.Error()).
			Msg("jobs left where they are: their destination is a key of another type")
	}
	return nil
}

// death is what a member needs that goes to the dead set now.
func (s *Scheduler) death(now time.Time) moving.Death {
	return moving.Death{Score: scores.Format(scores.Of(now)), Trim: limits.TrimAt(now, s.cfg.DeadMax, s.cfg.DeadTimeout)}
}
