package sched

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/cut"
	"github.com/troupehq/troupe/internal/joblog"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/moving"
	"github.com/troupehq/troupe/internal/notajob"
	"github.com/troupehq/troupe/internal/script"
)

//go:embed move.lua
var moveSource string

var moveScript = script.New("move", moveSource)

// batch sorts members by what is to become of them.
type batch struct {
	s   *Scheduler
	set Set
	cur *cursor
	now time.Time

	dying   group
	dropped []string
	lists   []group // one for each queue
	tried   int     // members given to the script
	stay    int     // members that remain in front of the rest
}

// group is what shares a destination.
type group struct {
	queue    string
	members  []string
	payloads []string
}

func (b *batch) sort(ctx context.Context, member string) error {
	left, known := b.cur.isHeld(member, b.now)
	if left {
		b.stay++
		return nil
	}
	b.cur.attempt(member)
	p, err := troupe.ParsePayload([]byte(member))
	if err != nil {
		b.bury(member, nil, err, known)
		return nil
	}
	out, err := b.s.cfg.Client.Prepare(ctx, p, b.now)
	var fault *client.MiddlewareError
	switch {
	case err == nil && out != nil:
		b.push(member, out)
	case err == nil:
		b.dropped = append(b.dropped, member)
		b.tried++
	case errors.As(err, &fault) && ctx.Err() == nil:
		b.stay++
		if b.cur.hold(member, b.now) {
			line := b.s.cfg.Logger.Error().Str("set", string(b.set)).
				Str("class", cut.Text(p.DisplayClass())).Str("jid", cut.Text(p.JID())).
				Strs("backtrace", troupe.Backtrace(err))
			joblog.Err(line, err).Msg("job left where it is: client middleware failed")
		}
	case fault == nil && errors.As(err, new(*client.FieldError)):
		b.bury(member, p, err, known)
	default: // the context has ended, or the client was set up wrongly
		b.cur.attempt("")
		return err
	}
	return nil
}

func (b *batch) bury(member string, p *troupe.Payload, reason error, known bool) {
	if !known {
		if p == nil {
			p = new(troupe.Payload)
		}
		line := b.s.cfg.Logger.Warn().Str("set", string(b.set)).Str("class", cut.Text(p.DisplayClass())).Str("jid", cut.Text(p.JID())).
			Int("bytes", len(member))
		joblog.Err(line, reason).Msg("not a valid job: moving it to the dead set")
	}
	text := notajob.Keep([]byte(member), "", b.now, b.s.cfg.Timestamps)
	b.dying.members = append(b.dying.members, member)
	b.dying.payloads = append(b.dying.payloads, string(text))
	b.tried++
}

func (b *batch) push(member string, p *troupe.Payload) {
	queue := p.Queue()
	i := slices.IndexFunc(b.lists, func(g group) bool { return g.queue == queue })
	if i < 0 {
		i = len(b.lists)
		b.lists = append(b.lists, group{queue: queue})
	}
	g := &b.lists[i]
	text := p.Bytes()
	g.members = append(g.members, member)
	g.payloads = append(g.payloads, unsafe.String(unsafe.SliceData(text), len(text)))
	b.tried++
}

// reverse turns the order in which the members are moved.
func (b *batch) reverse() {
	for _, g := range b.lists {
		slices.Reverse(g.members)
		slices.Reverse(g.payloads)
	}
}

// apply runs the script and sorts out who refused.
func (b *batch) apply(ctx context.Context) (out Promoted, err error) {
	if b.tried == 0 {
		return out, nil
	}
	if moving.Needed(b.s.cfg.Redis) {
		return b.applyOnCluster(ctx)
	}
	names, args := b.arguments()
	ctx, cancel := context.WithTimeout(ctx, promoteTimeout)
	defer cancel()
	reply, err := moveScript.Run(ctx, b.s.cfg.Redis, names, args...).Slice()
	if err == nil && len(reply) != 3+2*len(b.lists) {
		err = fmt.Errorf("got %d values, want %d", len(reply), 3+2*len(b.lists))
	}
	b.cur.release(b.dropped)
	if err != nil {
		return out, err
	}
	number := func(i int) int { n, _ := reply[i].(int64); return int(n) }
	text := func(i int) string { t, _ := reply[i].(string); return t }
	out.Buried, out.Dropped = number(0), number(1)
	err = b.settle(keys.Dead, b.dying, text(2))
	for i, g := range b.lists {
		moved, fault := number(3+2*i), text(4+2*i)
		out.Moved += moved
		if moved > 0 && fault != "" {
			b.s.cfg.Logger.Error().Str("queue", cut.Text(g.queue)).Str("fault", fault).Msg("jobs moved, but their queue is not listed in queues")
			fault = ""
		}
		err = errors.Join(err, b.settle(keys.Queue(g.queue), g, fault))
	}
	return out, err
}

// settle deals with the answer of a destination. One that is a key of another
// type is a fault of its own; any other refusal (no memory, no master) is the
// state of Redis, and an error.
func (b *batch) settle(key string, g group, fault string) error {
	if !strings.Contains(fault, "WRONGTYPE") {
		b.cur.release(g.members)
		if fault != "" {
			return fmt.Errorf("%s: %s", cut.Text(key), fault)
		}
		return nil
	}
	b.stay += len(g.members)
	news := 0
	for _, member := range g.members {
		if b.cur.hold(member, b.now) {
			news++
		}
	}
	if news > 0 {
		b.s.cfg.Logger.Error().Str("set", string(b.set)).Str("key", cut.Text(key)).Int("jobs", news).Str("fault", fault).
			Msg("jobs left where they are: their destination is a key of another type")
	}
	return nil
}

// arguments lays the batch out as move.lua reads it.
func (b *batch) arguments() (names []string, args []any) {
	names = append(make([]string, 0, 3+len(b.lists)), string(b.set), keys.Queues, keys.Dead)
	args = make([]any, 0, 5+2*len(b.lists)+2*b.tried)
	args = append(args,
		troupe.FormatScore(troupe.Score(b.now)),
		troupe.FormatScore(troupe.Score(b.now.Add(-b.s.cfg.DeadTimeout))),
		b.s.cfg.DeadMax)
	args = appendAll(append(args, len(b.dying.members)), b.dying.members)
	args = appendAll(args, b.dying.payloads)
	args = appendAll(append(args, len(b.dropped)), b.dropped)
	for _, g := range b.lists {
		names = append(names, keys.Queue(g.queue))
		args = appendAll(append(args, g.queue, len(g.members)), g.members)
		args = appendAll(args, g.payloads)
	}
	return names, args
}

// appendAll appends texts as pointers, which go-redis writes without another
// allocation each.
func appendAll(args []any, texts []string) []any {
	for i := range texts {
		args = append(args, &texts[i])
	}
	return args
}

// beaten tells whether all that was tried had been moved by somebody else.
func (b *batch) beaten(out Promoted) bool {
	return b.tried > 0 && out.Moved+out.Buried+out.Dropped == 0 && b.stay == 0
}
