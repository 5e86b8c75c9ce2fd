package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// What cluster_settle does with a unit.
const (
	toFront = iota
	toBack
	toNowhere
	justLook
)

// Settle moves units out of the private places; see Fetcher. To either end of a
// queue that is one atomic step. Retry, schedule and dead are in other slots: the
// move is a look whether the unit is ours, then the destination, then the
// removal. Between the last two a crash leaves the unit in both.
func (f *onCluster) Settle(ctx context.Context, moves []Move) ([]Result, error) {
	results := make([]Result, len(moves))
	var refused error
	err := f.call(ctx, "settle", func(in *incarnation) error {
		refused = nil
		err := f.settleMoves(ctx, in, moves, results)
		if r, ok := errors.AsType[*refusal](err); ok {
			refused, err = r, nil
		}
		return err
	})
	if err = errors.Join(err, refused); err != nil {
		return nil, err
	}
	return results, nil
}

// refusal is what a destination says that does not take a unit.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// settleMoves carries out moves in rounds of at most so many per queue.
func (f *onCluster) settleMoves(ctx context.Context, in *incarnation, moves []Move, results []Result) error {
	queues := make([][]int, len(f.names)*2)
	for i, m := range moves {
		results[i] = NotMine
		if f.owns(in, m.Unit) {
			results[i] = Moved
			q := f.place(&m.Unit)
			queues[q] = append(queues[q], i)
		}
	}
	for q := range queues {
		slices.SortFunc(queues[q], func(a, b int) int { // to the back the oldest first, else the newest
			backA, backB := moves[a].To == ToBack, moves[b].To == ToBack
			age := compareReceipts(moves[a].Unit.Receipt, moves[b].Unit.Receipt)
			if !backA {
				age = -age
			}
			return cmp.Or(boolCompare(backB, backA), age)
		})
	}
	var refused error
	for {
		round := settling{f: f, in: in, moves: moves}
		for q := range queues {
			var batch []int
			batch, queues[q] = clip(moves, queues[q])
			if len(batch) > 0 {
				round.batches = append(round.batches, settleBatch{q: q, moves: batch})
			}
		}
		if len(round.batches) == 0 {
			return refused
		}
		if err := round.run(ctx); err != nil {
			if _, ok := errors.AsType[*refusal](err); !ok {
				return err
			}
			refused = cmp.Or(refused, err)
		}
	}
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// clip cuts off what one script call carries.
func clip(moves []Move, list []int) (batch, rest []int) {
	size := 0
	for end, i := range list {
		if end == maxBatch || size > maxBatchBytes {
			return list[:end], list[end:]
		}
		size += max(len(moves[i].Payload), len(moves[i].Unit.Payload))
	}
	return list, nil
}

// settling is one round: at most one batch per queue.
type settling struct {
	f       *onCluster
	in      *incarnation
	moves   []Move
	batches []settleBatch
	known   []any // names for the set of queues
	zadds   map[Place]*redis.IntCmd
}

type settleBatch struct {
	q     int
	moves []int
	there map[int]bool // moves elsewhere whose unit is still ours
}

func (s *settling) run(ctx context.Context) error {
	if err := s.look(ctx); err != nil {
		return err
	}
	refused, err := s.write(ctx)
	if err != nil {
		return err
	}
	evals := make([]*eval, len(s.batches))
	sent := make([][]int, len(s.batches))
	for b, batch := range s.batches {
		args := []any{s.in.generation}
		for _, i := range batch.moves {
			m := &s.moves[i]
			switch what := s.what(m); {
			case what != toNowhere:
				own := ""
				if m.Payload == nil {
					own = "1"
				}
				args = append(args, &m.Unit.Receipt, what, own, m.Payload)
			case batch.there[i] && s.zadds[m.To].Err() == nil:
				args = append(args, &m.Unit.Receipt, what, "", "")
			default: // moved by an earlier try, or refused
				continue
			}
			sent[b] = append(sent[b], i)
		}
		evals[b] = newEval(clusterSettle, s.in.places[batch.q], args...)
	}
	if err := runAll(ctx, s.f.rdb, evals); err != nil {
		return err
	}
	for b := range evals {
		for k, text := range evals[b].cmd.Val() {
			if text != "0" && text != "1" && refused == nil {
				m := s.moves[sent[b][k]]
				refused = &refusal{fmt.Sprintf("settle %s of queue %s: %s", m.To, m.Unit.list(), text)}
			}
		}
	}
	return refused
}

func (s *settling) what(m *Move) int {
	switch m.To {
	case ToQueue:
		return toFront
	case ToBack:
		return toBack
	default:
		return toNowhere
	}
}

// look asks which of the units that go elsewhere are still ours: one that is not
// there was moved by an earlier try whose reply was lost, and may have moved on.
func (s *settling) look(ctx context.Context) error {
	var evals []*eval
	var asked []*settleBatch
	var lists [][]int
	for b := range s.batches {
		batch := &s.batches[b]
		args, list := []any{s.in.generation}, []int(nil)
		for _, i := range batch.moves {
			switch m := &s.moves[i]; s.what(m) {
			case toNowhere:
				args = append(args, &m.Unit.Receipt, justLook, "", "")
				list = append(list, i)
			case toBack:
				s.known = append(s.known, m.Unit.list())
			}
		}
		if len(list) > 0 {
			evals = append(evals, newEval(clusterSettle, s.in.places[batch.q], args...))
			asked, lists = append(asked, batch), append(lists, list)
		}
	}
	if err := runAll(ctx, s.f.rdb, evals); err != nil {
		return err
	}
	for b, batch := range asked {
		batch.there = make(map[int]bool, len(lists[b]))
		for k, text := range evals[b].cmd.Val() {
			batch.there[lists[b][k]] = text == "1"
		}
	}
	return nil
}

// write puts the units into their sets, one command per set, and names queues.
func (s *settling) write(ctx context.Context) (refused, err error) {
	members := map[Place][]any{}
	trims := map[Trim]bool{}
	first := map[Place]*Move{}
	for _, batch := range s.batches {
		for i, there := range batch.there {
			if !there {
				continue
			}
			m := &s.moves[i]
			payload := m.Payload
			if payload == nil {
				payload = m.Unit.Payload
			}
			members[m.To] = append(members[m.To], score(m.Score), payload)
			first[m.To] = m
			if m.To == ToDead {
				trims[m.Trim] = true
			}
		}
	}
	pipe := s.f.rdb.Pipeline()
	s.zadds = make(map[Place]*redis.IntCmd)
	for to, list := range members {
		key := map[Place]string{ToRetry: keys.Retry, ToSchedule: keys.Schedule, ToDead: keys.Dead}[to]
		s.zadds[to] = redis.NewIntCmd(ctx, append([]any{"zadd", key}, list...)...)
		_ = pipe.Process(ctx, s.zadds[to])
	}
	for t := range trims { // behind the ZADD, on the same connection
		trimDead(ctx, pipe, t)
	}
	if len(s.known) > 0 {
		slices.SortFunc(s.known, func(a, b any) int { return cmp.Compare(a.(string), b.(string)) })
		pipe.SAdd(ctx, keys.Queues, slices.Compact(s.known)...) // a name too many does no harm, a missing one little
	}
	if members[ToRetry] != nil || members[ToSchedule] != nil {
		pipe.Publish(ctx, keys.Bell, 1)
	}
	if pipe.Len() == 0 {
		return nil, nil
	}
	_, _ = pipe.Exec(ctx) // the errors are in the commands
	for to, cmd := range s.zadds {
		var reply redis.Error
		switch e := cmd.Err(); {
		case e == nil:
		case errors.As(e, &reply) && redis.HasErrorPrefix(e, "WRONGTYPE"):
			refused = &refusal{fmt.Sprintf("settle %s of queue %s: %v", to, first[to].Unit.Queue, e)}
		default:
			return nil, e
		}
	}
	return refused, nil
}

// trimDead trims the dead set behind a ZADD on the same connection.
func trimDead(ctx context.Context, pipe redis.Pipeliner, t Trim) {
	before, most := t.args()
	if before != "" {
		pipe.ZRemRangeByScore(ctx, keys.Dead, "-inf", fmt.Sprint(before))
	}
	if most != "" {
		pipe.ZRemRangeByRank(ctx, keys.Dead, 0, -int64(t.Max))
	}
}
