package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
			f.wake()
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
			if todo, err = p.abroad(ctx, todo, refused); err != nil {
				return err
			}
		}
		if len(todo) == 0 {
			return nil // done before
		}
		names, args := p.moveArgs(todo)
		replies, err := p.call(ctx, settleScript, names, args, func() {
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
		f.mu.Lock()
		defer f.mu.Unlock()
		for i, reply := range replies {
			switch {
			case reply == "1":
				p.drop(todo[i].l, todo[i].n)
			case *refused == nil:
				*refused = fmt.Errorf("%s of queue %s: %s", todo[i].To, todo[i].Unit.Queue, reply)
			}
		}
		return nil
	})
}

// moving is a move of a job that is in hand.
type moving struct {
	Move
	l       *list
	n       uint64
	written bool // to another slot: it is to be taken out of its list
}

// inHand are the moves of jobs that are not settled yet, each once.
func (p *place) inHand(moves []Move) (todo []moving) {
	f := p.in.f
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := make(map[string]bool, len(moves))
	for _, m := range moves {
		if l, n, ok := p.lookup(&m.Unit); ok && !seen[m.Unit.Receipt] {
			seen[m.Unit.Receipt] = true
			todo = append(todo, moving{Move: m, l: l, n: n})
		}
	}
	return todo
}

// moveArgs are the keys and arguments of settle.
func (p *place) moveArgs(todo []moving) (names []string, args []any) {
	names = []string{keys.Retry, keys.Schedule, keys.Dead, keys.Queues}
	if p.in.f.cluster {
		names = []string{p.key, p.key, p.key, p.key}
	}
	for _, m := range todo {
		var to, target any = int(m.To), score(m.Score)
		known, empty, trim := "", "", ""
		list := numberOf(&names, m.l.key) + 1 // the place is the first
		switch {
		case m.written:
			to = ""
		case m.To == ToQueue || m.To == ToBack:
			key := keys.Queue(m.Unit.Queue)
			if m.Unit.Suspect {
				key = p.slot.Suspects(m.Unit.Queue)
			}
			target = numberOf(&names, key) + 1
			if m.To == ToBack && !p.in.f.cluster {
				known = m.Unit.Queue
			}
		case m.To == ToDead:
			trim = m.Trim.text()
		}
		if m.Payload != nil && len(m.Payload) == 0 {
			empty = "1"
		}
		args = append(args, list, m.l.field, m.Unit.Payload, to, target, known, m.Payload, empty, trim)
	}
	return names, args
}

// numberOf is the number of a key among those of a script; a new one is added.
func numberOf(names *[]string, key string) int {
	i := slices.Index(*names, key)
	if i < 0 {
		i, *names = len(*names), append(*names, key)
	}
	return i + 1
}

// abroad carries out the first step of moves whose destination is in another slot of a
// cluster: it is written, and the job is taken out of its list after that. A process that
// dies in between leaves the job twice rather than nowhere. What is returned is to be done
// in the place.
func (p *place) abroad(ctx context.Context, todo []moving, refused *error) (here []moving, err error) {
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
			m.written = setOf[m.To] != ""
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
		return putScript.Queue(ctx, p, []string{setOf[m.To]}, "ZADD", m.bytes(), score(m.Score), m.Trim.text())
	case ToBack:
		return put(ctx, p, "SADD", keys.Queues, m.Unit.Queue)
	}
	return nil
}

// put adds to a pipeline a write that Redis carries out when it is out of memory, too.
func put(ctx context.Context, p redis.Pipeliner, command, key string, what any) *redis.Cmd {
	return putScript.Queue(ctx, p, []string{key}, command, what)
}
