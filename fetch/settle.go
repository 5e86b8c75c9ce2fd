package fetch

import (
	"context"
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
		results, err = f.settle(ctx, in, moves)
		return err
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (f *fetcher) settle(ctx context.Context, in *incarnation, moves []Move) ([]Result, error) {
	defer f.give(moves)()
	results := make([]Result, len(moves))
	by := make(map[*place][]*Move)
	for i := range moves {
		u := &moves[i].Unit
		q, known := f.index[u.Queue]
		if !known || u.Incarnation != in.n || u.Receipt == "" {
			results[i] = NotMine
			continue
		}
		by[in.placeOf(q)] = append(by[in.placeOf(q)], &moves[i])
	}
	var refused error
	for _, p := range in.places {
		some := inOrder(by[p])
		for len(some) > 0 {
			batch := batchOf(some)
			some = some[len(batch):]
			if err := p.settle(ctx, batch, &refused); err != nil {
				return nil, errors.Join(err, refused)
			}
		}
	}
	return results, refused
}

// give notes that jobs go back to their queues, until end is called: meanwhile no wait on
// these begins, which would get them again.
func (f *fetcher) give(moves []Move) (end func()) {
	var queues []int
	for i := range moves {
		if q, ok := f.index[moves[i].Unit.Queue]; ok && moves[i].To == ToQueue {
			queues = append(queues, q)
		}
	}
	add := func(n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, q := range queues {
			f.giving[q] += n
		}
		if n < 0 {
			f.wake()
		}
	}
	if len(queues) == 0 {
		return func() {}
	}
	add(1)
	return func() { add(-1) }
}

// inOrder puts the moves to the end of a queue that is popped next last, the newest
// first: what is pushed last there is popped first.
func inOrder(moves []*Move) []*Move {
	var next []*Move
	rest := make([]*Move, 0, len(moves))
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
func batchOf(moves []*Move) []*Move {
	size := 0
	for i, m := range moves {
		if size += len(m.Unit.Payload) + len(m.Payload); i > 0 && (size > maxBatchBytes || i == maxMoves) {
			return moves[:i]
		}
	}
	return moves
}

// settle carries out some moves of a place.
func (p *place) settle(ctx context.Context, moves []*Move, refused *error) error {
	return p.try(ctx, func() error {
		todo, jobs := p.inHand(moves)
		if len(todo) == 0 {
			return nil // done before
		}
		if p.in.f.cluster {
			var err error
			if todo, jobs, err = p.abroad(ctx, todo, jobs, refused); err != nil || len(todo) == 0 {
				return err
			}
		}
		names, args := p.moveArgs(todo, jobs)
		replies, err := p.call(ctx, settleScript, names, args, p.effect(func() {
			for _, j := range jobs { // or its destination has refused it: the list tells
				p.owe(j.l)
				j.l.unsure(j.n)
			}
		}))
		if err != nil {
			return err
		}
		f := p.in.f
		f.mu.Lock()
		defer f.mu.Unlock()
		for i, reply := range replies {
			switch {
			case reply == "1":
				p.drop(jobs[i].l, jobs[i].n)
			case *refused == nil:
				*refused = fmt.Errorf("%s of queue %s: %s", todo[i].To, todo[i].Unit.Queue, reply)
			}
		}
		return nil
	})
}

// job is a unit that was looked up.
type job struct {
	l *list
	held
}

// inHand are the moves of jobs that are not settled yet, each once.
func (p *place) inHand(moves []*Move) (todo []*Move, jobs []job) {
	f := p.in.f
	f.mu.Lock()
	defer f.mu.Unlock()
	type name struct {
		l *list
		n uint64
	}
	seen := make(map[name]bool, len(moves))
	for _, m := range moves {
		if l, n, ok := p.lookup(&m.Unit); ok && !seen[name{l, n}] {
			seen[name{l, n}] = true
			todo = append(todo, m)
			jobs = append(jobs, job{l, l.held[l.find(n)]})
		}
	}
	return todo, jobs
}

// moveArgs are the keys and arguments of settle.
func (p *place) moveArgs(moves []*Move, jobs []job) (names []string, args []any) {
	names = []string{keys.Retry, keys.Schedule, keys.Dead, keys.Queues}
	if p.in.f.cluster {
		names = []string{p.key, p.key, p.key, p.key}
	}
	number := make(map[string]int)
	add := func(key string) int {
		i, ok := number[key]
		if !ok {
			names = append(names, key)
			i = len(names) + 1 // the place is the first
			number[key] = i
		}
		return i
	}
	for i, m := range moves {
		var target any = score(m.Score)
		known, empty, trim := "", "", ""
		switch m.To { //nolint:exhaustive // the others have a score
		case ToQueue, ToBack:
			if m.Unit.Suspect {
				target = add(p.slot.Suspects(m.Unit.Queue))
			} else {
				target = add(keys.Queue(m.Unit.Queue))
			}
			if m.To == ToBack && !p.in.f.cluster {
				known = m.Unit.Queue
			}
		case ToDead:
			trim = m.Trim.text()
		}
		if m.Payload != nil && len(m.Payload) == 0 {
			empty = "1"
		}
		args = append(args, add(jobs[i].l.key), jobs[i].l.field, jobs[i].payload, int(m.To), target, known, m.Payload, empty, trim)
	}
	return names, args
}

// abroad carries out the first step of moves whose destination is in another slot of a
// cluster: it is written, and the job is acked after that. A process that dies in
// between leaves the job twice rather than nowhere. What is returned is to be done in
// the place: for what was written, to take it out.
func (p *place) abroad(ctx context.Context, moves []*Move, jobs []job, refused *error) ([]*Move, []job, error) {
	f := p.in.f
	var here []*Move
	var rest []job
	var acks []job
	cmds := make([]*redis.Cmd, len(moves))
	_, err := f.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, m := range moves {
			payload := m.Payload
			if payload == nil {
				payload = m.Unit.Payload
			}
			switch m.To { //nolint:exhaustive // ToQueue is in the slot
			case ToRetry, ToSchedule, ToDead:
				cmds[i] = putSet(ctx, pipe, m.To, m.Score, payload, m.Trim)
			case ToBack:
				cmds[i] = put(ctx, pipe, "SADD", keys.Queues, m.Unit.Queue)
			}
		}
		return nil
	})
	if err != nil && !isReply(err) {
		return nil, nil, err
	}
	for i, m := range moves {
		switch {
		case cmds[i] == nil || m.To == ToBack && cmds[i].Err() == nil:
			here, rest = append(here, m), append(rest, jobs[i])
		case cmds[i].Err() == nil:
			acks = append(acks, jobs[i])
		case *refused == nil:
			*refused = fmt.Errorf("%s of queue %s: %w", m.To, m.Unit.Queue, cmds[i].Err())
		}
	}
	if len(acks) > 0 {
		if err := p.ack(ctx, acks); err != nil {
			return nil, nil, err
		}
	}
	return here, rest, nil
}

// put adds to a pipeline the first step of a move that leaves the slot of its queue on a
// cluster: the destination is written. Out of memory Redis carries out the script.
func put(ctx context.Context, p redis.Pipeliner, command, key string, what any) *redis.Cmd {
	return putScript.Queue(ctx, p, []string{key}, command, what)
}

func putSet(ctx context.Context, p redis.Pipeliner, to Place, at float64, payload []byte, t Trim) *redis.Cmd {
	key := map[Place]string{ToRetry: keys.Retry, ToSchedule: keys.Schedule, ToDead: keys.Dead}[to]
	return putScript.Queue(ctx, p, []string{key}, "ZADD", payload, score(at), t.text())
}

// ack takes jobs out of their lists. It is our turn.
func (p *place) ack(ctx context.Context, jobs []job) error {
	units := make([]Unit, len(jobs))
	for i, j := range jobs {
		units[i] = Unit{Receipt: j.l.field + "." + strconv.FormatUint(j.n, 10), Incarnation: p.in.n}
	}
	_, err := p.takeNow(ctx, &request{acks: units}, 0)
	return err
}

// text is t as the scripts read it: 'BEFORE MAX', ” for none.
func (t Trim) text() string {
	before, most := t.args()
	if before+most == "" {
		return ""
	}
	return before + " " + most
}
