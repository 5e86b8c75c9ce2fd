package fetch

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	maxMoves  = 500  // of one call
	maxPushes = 4000 // with them, but for those of the first
)

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
	by := make(map[*index][]Move)
	for i, m := range moves {
		_, known := f.set.Load().index[m.Unit.Queue]
		if !known || m.Unit.Incarnation != in.n || m.Unit.Receipt == "" {
			results[i] = NotMine
			continue
		}
		p := in.indexOf(m.Unit.Queue)
		if by[p] == nil && !f.cluster {
			by[p] = make([]Move, 0, len(moves)-i)
		}
		by[p] = append(by[p], m)
	}
	var refused error
	for _, p := range in.indexes {
		asking, others := askingFirst(by[p])
		ask := func() error {
			for len(asking) > 0 {
				batch := batchOf(asking)
				asking = asking[len(batch):]
				if err := p.admit(ctx, batch); err != nil {
					return err
				}
			}
			return nil
		}
		if !slices.ContainsFunc(others, func(m Move) bool { return m.Effects != nil && m.Effects.Rules.TellsFailure() }) { // else who asks is asked behind it
			if err := ask(); err != nil {
				return nil, err
			}
		}
		for some := inOrder(others); len(some) > 0; {
			batch := batchOf(some)
			some = some[len(batch):]
			if err := p.settle(ctx, batch, &refused); err != nil {
				return nil, errors.Join(err, refused)
			}
		}
		if err := ask(); err != nil {
			return nil, errors.Join(err, refused)
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
	if !slices.ContainsFunc(moves, func(m Move) bool { return m.To == ToQueue }) {
		return moves
	}
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

// batchOf cuts off what one call carries. A job that stays is alone, unless it asks: see settle.lua.
func batchOf(moves []Move) []Move {
	size, pushes := 0, 0
	for i := range moves {
		m := &moves[i]
		size += len(m.Unit.Payload) + len(m.Payload) + m.Effects.Size()
		pushes += m.pushes()
		if i > 0 && (size > maxBatchBytes || i == maxMoves || pushes > maxPushes || !m.asks() && (m.To == ToStay || moves[0].To == ToStay)) {
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

// settle carries out some moves of an index.
func (p *index) settle(ctx context.Context, moves []Move, refused *error) error {
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
				if j.To == ToStay {
					j.Stay.Done = true
					continue
				}
				j.l.mustRead = true
				if i := j.l.find(j.n); i >= 0 {
					j.l.inHand[i].unsure = true
				}
			}
		})
		if err != nil {
			return err
		}
		for len(reply) > 1 {
			if reply[0] == "d" {
				left(todo, reply[1])
			} else if reply[0] == "b" {
				changed(todo, reply[1])
			} else if why, ok := strings.CutPrefix(reply[0], "k"); ok {
				unkept(todo, reply[1], why)
			} else if g, err := strconv.Atoi(reply[0]); err == nil && 0 < g && g <= len(groups) {
				groups[g-1].refused = reply[1]
			}
			reply = reply[2:]
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, g := range groups {
			for _, i := range g.moves {
				switch m := &todo[i]; {
				case m.To == ToStay:
					m.Stay.Done = true
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

// sendWholeLocked marks a large job to be sent with the next call. It returns false if the job was sent already.
func (p *index) sendWholeLocked(l *list, n uint64) bool {
	i := l.find(n)
	if i < 0 || l.inHand[i].whole {
		return false
	}
	l.inHand[i].whole = true
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
func (p *index) inHand(moves []Move) (todo []moving) {
	f := p.in.f
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := make(map[string]bool, len(moves))
	todo = make([]moving, 0, len(moves))
	for _, m := range moves {
		if m.To == ToStay && m.Stay.Done {
			continue
		}
		if l, n, ok := p.lookupLocked(&m.Unit); ok && !seen[m.Unit.Receipt] {
			seen[m.Unit.Receipt] = true
			large := len(m.Unit.Payload) >= largeJob && !l.inHand[l.find(n)].whole
			todo = append(todo, moving{Move: m, l: l, n: n, large: large})
		}
	}
	return todo
}
