package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/troupehq/troupe/internal/keys"
)

// A script call carries at most so many moves, and ends after so many bytes.
const (
	maxBatch      = 500
	maxBatchBytes = 4 << 20
)

// Settle moves units out of the private place; see Fetcher. There is one call
// per queue and 500 moves. A move whose destination refuses it (a key of the
// wrong type) is an error that names the destination; the unit stays where it was.
func (f *reliable) Settle(ctx context.Context, moves []Move) ([]Result, error) {
	results := make([]Result, len(moves))
	var refused error
	err := f.call(ctx, "settle", func(in *incarnation) error {
		refused = nil
		for _, batch := range f.batches(in, moves, results) {
			if err := f.settle(ctx, in, moves, batch, &refused); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, refused); err != nil {
		return nil, err
	}
	return results, nil
}

// batches sorts the moves that are ours by queue, those to its back first and
// oldest first, the others newest first: what is requeued last is popped first.
// All others are marked NotMine.
func (f *reliable) batches(in *incarnation, moves []Move, results []Result) [][]int {
	byQueue := make([][]int, len(f.names))
	for i, m := range moves {
		results[i] = NotMine
		if f.owns(in, m.Unit) {
			results[i] = Moved
			q := f.index[m.Unit.Queue]
			byQueue[q] = append(byQueue[q], i)
		}
	}
	var batches [][]int
	for _, batch := range byQueue {
		slices.SortFunc(batch, func(a, b int) int {
			age := compareReceipts(moves[a].Unit.Receipt, moves[b].Unit.Receipt)
			switch backA, backB := moves[a].To == ToBack, moves[b].To == ToBack; {
			case backA && backB:
				return age
			case backA:
				return -1
			case backB:
				return 1
			}
			return -age
		})
		start, size := 0, 0
		for end, i := range batch {
			if end-start == maxBatch || size > maxBatchBytes {
				batches = append(batches, batch[start:end])
				start, size = end, 0
			}
			size += len(moves[i].Payload)
		}
		if start < len(batch) {
			batches = append(batches, batch[start:])
		}
	}
	return batches
}

// settle makes one call for moves of one queue. A receipt that is not there
// belongs to a unit that an earlier try has moved: had a rescuer taken it, the
// fence would have refused the call.
func (f *reliable) settle(ctx context.Context, in *incarnation, moves []Move, batch []int, refused *error) error {
	queue := moves[batch[0]].Unit.Queue
	args := append(make([]any, 0, 2+7*len(batch)), in.generation, f.ttl)
	for _, i := range batch {
		args = appendMove(args, &moves[i])
	}
	wip := in.wips[f.index[queue]]
	replies, err := settleScript.Run(ctx, f.rdb,
		[]string{in.lease, wip, keys.Queue(queue), keys.Retry, keys.Schedule, keys.Dead, keys.Queues}, args...).Slice()
	if err != nil {
		return err
	}
	for k, reply := range replies {
		if text, bad := reply.(string); bad && *refused == nil {
			*refused = fmt.Errorf("settle %s of queue %s: %s", moves[batch[k]].To, queue, text)
		}
	}
	return nil
}

// appendMove adds the seven arguments of a move; bytes that did not change are
// those of the private place and do not travel.
func appendMove(args []any, m *Move) []any {
	own, target := "", any(m.Unit.Queue)
	if m.Payload == nil {
		own = "1"
	}
	if m.To != ToBack {
		target = score(m.Score)
	}
	before, most := m.Trim.args()
	return append(args, &m.Unit.Receipt, int(m.To), target, own, m.Payload, before, most)
}

// args are the arguments of the two trims; "" is none.
func (t Trim) args() (before, most any) {
	before, most = "", ""
	if t.Before != 0 {
		before = score(t.Before)
	}
	if t.Max > 0 {
		most = t.Max
	}
	return before, most
}

// score is the decimal text of f, without an exponent: the Web UI reads it.
func score(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// String is the name of the place in errors and logs.
func (p Place) String() string {
	switch p {
	case ToQueue:
		return "to queue"
	case ToRetry:
		return "to retry"
	case ToSchedule:
		return "to schedule"
	case ToDead:
		return "to dead"
	case ToBack:
		return "to the back"
	}
	return "to place " + strconv.Itoa(int(p))
}
