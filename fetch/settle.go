package fetch

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

const maxMoves = 500 // of one call

// Settle moves jobs to where they belong; see Fetcher. A destination that
// refuses its job (a key of the wrong type) is an error that names it; the job stays.
func (f *fetcher) Settle(ctx context.Context, moves []Move) ([]Result, error) {
	var results []Result
	err := f.each(ctx, "settle", func(in *incarnation) (err error) {
		if results, err = f.settle(ctx, in, moves); err == nil {
			in.followUp(ctx)
		}
		return err
	})
	return results, err
}

func (f *fetcher) settle(ctx context.Context, in *incarnation, moves []Move) ([]Result, error) {
	f.give(moves, 1)
	defer f.give(moves, -1)
	results := make([]Result, len(moves))
	by := make(map[*place][]Move)
	for i, m := range moves {
		_, known := f.set.Load().index[m.Unit.Queue]
		if !known || m.Unit.Incarnation != in.n || m.Unit.Receipt == "" {
			results[i] = NotMine
			continue
		}
		p := in.placeOf(m.Unit.Queue)
		by[p] = append(by[p], m)
	}
	var refused error
	for _, p := range in.places {
		for some := inOrder(by[p]); len(some) > 0; {
			batch := batchOf(some)
			some = some[len(batch):]
			if err := p.settle(ctx, batch, &refused); err != nil {
				return nil, errors.Join(err, refused)
			}
		}
	}
	if refused != nil {
		return nil, refused
	}
	return results, nil
}

// give counts the calls that give jobs back to a queue: meanwhile no wait on it begins,
// which would get them again.
func (f *fetcher) give(moves []Move, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range moves {
		if m.To != ToQueue {
			continue
		}
		if f.giving[m.Unit.Queue] += n; f.giving[m.Unit.Queue] == 0 {
			delete(f.giving, m.Unit.Queue)
			f.wakeLocked()
		}
	}
}

// inOrder puts the moves to the end of a queue that is popped next last, the newest
// first: what is pushed last there is popped first.
func inOrder(moves []Move) []Move {
	var next []Move
	rest := make([]Move, 0, len(moves))
	for _, m := range moves {
		if m.To == ToQueue {
			next = append(next, m)
		} else {
			rest = append(rest, m)
		}
	}
	slices.Reverse(next)
	return append(rest, next...)
}

// batchOf cuts off what one call carries.
func batchOf(moves []Move) []Move {
	size := 0
	for i, m := range moves {
		if size += len(m.Unit.Payload) + len(m.Payload); i > 0 && (size > maxBatchBytes || i == maxMoves) {
			return moves[:i]
		}
	}
	return moves
}

// backToQueue are the moves that give units back.
func backToQueue(units []Unit) []Move {
	moves := make([]Move, len(units))
	for i, u := range units {
		moves[i] = Move{Unit: u, To: ToQueue}
	}
	return moves
}

// settle carries out some moves of a place.
func (p *place) settle(ctx context.Context, moves []Move, refused *error) error {
	f := p.in.f
	return p.try(ctx, func() (err error) {
		todo := p.inHand(moves)
		if f.cluster {
			if todo, err = p.toOtherSlot(ctx, todo, refused); err != nil {
				return err
			}
		}
		if len(todo) == 0 {
			return nil // done before
		}
		groups := p.groups(todo)
		names, args := p.moveArgs(todo, groups)
		reply, err := p.call(ctx, settleScript, names, args, func() {
			for _, j := range todo { // or its destination has refused it: the list tells
				j.l.owed = true
				if i := j.l.find(j.n); i >= 0 {
					j.l.held[i].unsure = true
				}
			}
		})
		if err != nil {
			return err
		}
		for len(reply) > 1 {
			if g, err := strconv.Atoi(reply[0]); err == nil && 0 < g && g <= len(groups) {
				groups[g-1].refused = reply[1]
			}
			reply = reply[2:]
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, g := range groups {
			for _, i := range g.moves {
				switch m := &todo[i]; {
				case g.refused == "":
					p.dropLocked(m.l, m.n)
				case g.refused == absent && p.sendWholeLocked(m.l, m.n):
					err = errFellBack // again, whole
				case *refused == nil:
					*refused = fmt.Errorf("%s of queue %s: %s", m.To, m.Unit.Queue, g.refused)
				}
			}
		}
		return err
	})
}

const (
	largeJob = 256 << 10 // from so many bytes on a call names a job, since Redis has it
	absent   = "ABSENT"
)

// sendWholeLocked has a large job sent with the next call; false if it was.
func (p *place) sendWholeLocked(l *list, n uint64) bool {
	i := l.find(n)
	if i < 0 || l.held[i].whole {
		return false
	}
	l.held[i].whole = true
	return true
}

// nameOf names a large job by its length and SHA-1.
func nameOf(job []byte) string {
	return fmt.Sprintf("%d %x", len(job), sha1.Sum(job)) //nolint:gosec // as redis.sha1hex
}

// moving is a move of a job that is in hand.
type moving struct {
	Move
	l       *list
	n       uint64
	written bool // to another slot: it is to be taken out of its list
	large   bool // its job is named, and not sent
}

// inHand are the moves of jobs that are not settled yet, each once.
func (p *place) inHand(moves []Move) (todo []moving) {
	f := p.in.f
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := make(map[string]bool, len(moves))
	for _, m := range moves {
		if l, n, ok := p.lookupLocked(&m.Unit); ok && !seen[m.Unit.Receipt] {
			seen[m.Unit.Receipt] = true
			large := len(m.Unit.Payload) >= largeJob && !l.held[l.find(n)].whole
			todo = append(todo, moving{Move: m, l: l, n: n, large: large})
		}
	}
	return todo
}

// moveGroup are moves from one list to one destination, in their order.
type moveGroup struct {
	l       *list
	written bool // see moving
	to      Destination
	queue   string // key of the queue, "" of a set
	known   string // name of the queue if it may be new to the set of all queues
	trim    string
	given   bool  // what is written is not the jobs themselves
	large   bool  // see moving; there is one
	moves   []int // of what is to be done
	refused string
}

// groups sorts moves by list and destination. The order of those into a queue stays.
func (p *place) groups(todo []moving) (groups []moveGroup) {
	for i := range todo {
		m := &todo[i]
		g := moveGroup{l: m.l, written: m.written, to: m.To, given: m.Payload != nil, large: m.large}
		switch {
		case m.written:
		case m.To == ToQueue || m.To == ToBack:
			g.queue = keys.Queue(m.queue())
			if m.Unit.Suspect && m.Queue == "" {
				g.queue = p.slot.Suspects(m.Unit.Queue)
			}
			if m.To == ToBack && !p.in.f.cluster {
				g.known = m.queue()
			}
		case m.To == ToDead:
			g.trim = m.Trim.Text()
		}
		at := slices.IndexFunc(groups, func(o moveGroup) bool {
			return !o.large && !g.large && o.l == g.l && o.written == g.written && o.to == g.to && o.queue == g.queue && o.trim == g.trim && o.given == g.given
		})
		if at < 0 || g.queue != "" && at < len(groups)-1 {
			at, groups = len(groups), append(groups, g)
		}
		groups[at].moves = append(groups[at].moves, i)
	}
	return groups
}

// moveArgs are the keys and arguments of settle.
func (p *place) moveArgs(todo []moving, groups []moveGroup) (names []string, args []any) {
	names = []string{keys.Retry, keys.Schedule, keys.Dead, keys.Queues}
	if p.in.f.cluster {
		names = []string{p.key, p.key, p.key, p.key}
	}
	for _, g := range groups {
		var to, queue any = int(g.to), ""
		given := ""
		list := numberOf(&names, g.l.key) + 1 // the place is the first
		if g.written {
			to = ""
		}
		if g.queue != "" {
			queue = numberOf(&names, g.queue) + 1
		}
		if g.given {
			given = "1"
		}
		oldest, job := p.oldest(todo, &g), func(i int) any { return todo[i].Unit.Payload }
		if g.large {
			oldest, job = nameOf(todo[g.moves[0]].Unit.Payload), func(int) any { return "" }
		}
		args = append(args, list, g.l.field, oldest, to, queue, g.known, g.trim, given, len(g.moves))
		for _, i := range g.moves {
			if g.written {
				break
			}
			if g.queue == "" {
				args = append(args, score(todo[i].Score))
			}
			if g.given {
				args = append(args, todo[i].Payload)
			} else {
				args = append(args, job(i))
			}
		}
		for _, i := range g.moves {
			if g.given || g.written {
				args = append(args, job(i))
			}
		}
	}
	return names, args
}

// oldest is the length of the list of a group if all the group's jobs are its oldest, and may
// go by their number; else "".
func (p *place) oldest(todo []moving, g *moveGroup) any {
	f := p.in.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if g.l.waits() || g.l.mixed || len(g.moves) > len(g.l.held) || slices.ContainsFunc(g.l.held, func(h held) bool { return h.unsure }) {
		return ""
	}
	last := g.l.held[len(g.moves)-1].n // held is in the order of n, and no job is in todo twice
	if slices.ContainsFunc(g.moves, func(i int) bool { return todo[i].n > last }) {
		return ""
	}
	return len(g.l.held)
}

// numberOf is the number of a key among those of a script; a new one is added.
func numberOf(names *[]string, key string) int {
	i := slices.Index(*names, key)
	if i < 0 {
		i, *names = len(*names), append(*names, key)
	}
	return i + 1
}

// toOtherSlot carries out the first step of moves whose destination is in another slot of a
// cluster: it is written, and the job is taken out of its list after that. A process that
// dies in between leaves the job twice rather than nowhere. What is returned is to be done
// in the place.
func (p *place) toOtherSlot(ctx context.Context, todo []moving, refused *error) (here []moving, err error) {
	cmds := make([]*redis.Cmd, len(todo))
	_, err = p.in.f.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range todo {
			cmds[i] = putMove(ctx, pipe, &todo[i].Move)
		}
		return nil
	})
	if err != nil && !isReply(err) {
		return nil, err
	}
	for i, m := range todo {
		switch {
		case cmds[i] == nil || cmds[i].Err() == nil:
			m.written = setOf[m.To] != "" || m.Queue != ""
			here = append(here, m)
		case *refused == nil:
			*refused = fmt.Errorf("%s of queue %s: %w", m.To, m.Unit.Queue, cmds[i].Err())
		}
	}
	return here, nil
}

// setOf are the sorted sets.
var setOf = map[Destination]string{ToRetry: keys.Retry, ToSchedule: keys.Schedule, ToDead: keys.Dead}

// putMove adds to a pipeline the first step of a move that leaves the slot of its queue on a
// cluster, nil if there is none.
func putMove(ctx context.Context, p redis.Pipeliner, m *Move) *redis.Cmd {
	switch m.To { //nolint:exhaustive // ToQueue is in the slot
	case ToRetry, ToSchedule, ToDead:
		return putScript.Queue(ctx, p, []string{setOf[m.To]}, "ZADD", m.bytes(), score(m.Score), m.Trim.Text())
	case ToBack:
		cmd := put(ctx, p, "SADD", keys.Queues, m.queue())
		if m.Queue != "" {
			cmd = put(ctx, p, "LPUSH", keys.Queue(m.Queue), m.bytes())
		}
		return cmd
	}
	return nil
}

// put adds to a pipeline a write that Redis carries out when it is out of memory, too.
func put(ctx context.Context, p redis.Pipeliner, command, key string, what any) *redis.Cmd {
	return putScript.Queue(ctx, p, []string{key}, command, what)
}
