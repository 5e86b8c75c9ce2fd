package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unsafe"

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
		f.mu.Lock()
		f.busy = max(0, f.busy-len(moves))
		f.mu.Unlock()
		f.laps.freed(len(moves))
		return nil
	})
	if err = errors.Join(err, refused); err != nil {
		return nil, err
	}
	return results, nil
}

// batches sorts the moves that are ours by queue and place, those to the back
// of their queue first and oldest first, the others newest first: what is
// requeued last is popped first. All others are marked NotMine.
func (f *reliable) batches(in *incarnation, moves []Move, results []Result) [][]int {
	byQueue := make([][]int, 2*len(f.names))
	for i := range moves {
		results[i] = NotMine
		if f.owns(in, moves[i].Unit) {
			results[i] = Moved
			q := f.place(&moves[i].Unit)
			byQueue[q] = append(byQueue[q], i)
		}
	}
	var batches [][]int
	for _, batch := range byQueue {
		slices.SortFunc(batch, func(i, k int) int {
			a, b := &moves[i], &moves[k]
			age := compareReceipts(a.Unit.Receipt, b.Unit.Receipt)
			switch {
			case a.To == ToBack && b.To == ToBack:
				return age
			case a.To == b.To:
				return -age
			case a.To == ToBack:
				return -1
			case b.To == ToBack:
				return 1
			}
			return cmp.Compare(a.To, b.To)
		})
		batch = slices.CompactFunc(batch, func(i, k int) bool { return moves[i].Unit.Receipt == moves[k].Unit.Receipt })
		start, size := 0, 0
		for end, i := range batch {
			if end-start == maxBatch || size > maxBatchBytes {
				batches = append(batches, batch[start:end])
				start, size = end, 0
			}
			size += max(len(moves[i].Payload), len(moves[i].Unit.Payload))
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
	first := &moves[batch[0]].Unit
	queue := first.list()
	args := append(make([]any, 0, 40+3*len(batch)), nil, nil, 7,
		in.lease, in.wips[f.place(first)], keys.Queue(queue), keys.Retry, keys.Schedule, keys.Dead, keys.Queues,
		in.generation, f.ttl, queue, 0)
	groups := groupMoves(moves, batch)
	var apart []*Parcel
	whole, opened := 0, 0
	for _, group := range groups {
		if group.whole != nil {
			whole++
			continue
		}
		for _, i := range group.moves {
			if p := moves[i].Unit.Parcel; p != nil && !slices.Contains(apart, p) {
				apart = append(apart, p)
				args = append(args, &p.field)
				if p.takeApart() {
					opened++
				}
			}
		}
	}
	args[13] = len(apart)
	for _, group := range groups {
		args = appendGroup(args, moves, group)
	}
	replies, err := settleScript.run(ctx, f.rdb, args)
	if err != nil {
		return err
	}
	if whole+opened > 0 {
		f.mu.Lock()
		f.thrift.note(whole, opened)
		f.mu.Unlock()
	}
	for k, reply := range replies {
		if reply != "1" && *refused == nil {
			*refused = fmt.Errorf("settle %s of queue %s: %s", moves[groups[k].moves[0]].To, queue, reply)
		}
	}
	return nil
}

// group is what is one command of the script.
type group struct {
	moves []int
	whole *Parcel // they are all of its units; nil if they are not
}

// groupMoves cuts a batch where the place changes, or who has the bytes, and around
// whole parcels.
func groupMoves(moves []Move, batch []int) (groups []group) {
	for k := 0; k < len(batch); {
		if p := wholeParcel(moves, batch, k); p != nil {
			groups = append(groups, group{batch[k : k+p.size], p})
			k += p.size
			continue
		}
		start := k
		for k++; k < len(batch) && wholeParcel(moves, batch, k) == nil; k++ {
			a, b := &moves[batch[start]], &moves[batch[k]]
			if a.To != b.To || (a.Payload == nil) != (b.Payload == nil) {
				break
			}
		}
		groups = append(groups, group{batch[start:k], nil})
	}
	return groups
}

// wholeParcel is the parcel all of whose units stand in the batch from k on, with new
// bytes and for one place; nil if there is none. A batch is sorted by place and
// receipt, so what is between the first and the last of a parcel is of it, too.
func wholeParcel(moves []Move, batch []int, k int) *Parcel {
	first := &moves[batch[k]]
	p := first.Unit.Parcel
	if p == nil || k > 0 && moves[batch[k-1]].Unit.Parcel == p || k+p.size > len(batch) {
		return nil
	}
	last := &moves[batch[k+p.size-1]]
	if last.Unit.Parcel != p || last.To != first.To || p.apart.Load() {
		return nil
	}
	for _, i := range batch[k : k+p.size] {
		if moves[i].Payload == nil {
			return nil
		}
	}
	return p
}

// appendGroup adds the arguments of a group. Bytes that did not change are those
// of the private place and do not travel. Strings go as pointers, which go-redis
// writes without another allocation each.
func appendGroup(args []any, moves []Move, g group) []any {
	head := &moves[g.moves[0]]
	own, trim := "", head.Trim
	switch {
	case g.whole != nil:
		own = "+"
	case head.Payload == nil:
		own = "1"
	}
	for _, i := range g.moves { // most want the same; else the one that leaves less
		trim.Before = max(trim.Before, moves[i].Trim.Before)
		if most := moves[i].Trim.Max; most > 0 && (trim.Max == 0 || most < trim.Max) {
			trim.Max = most
		}
	}
	before, most := trim.args()
	args = append(args, int(head.To), len(g.moves), own, before, most)
	if g.whole != nil {
		args = append(args, &g.whole.field, &g.whole.list)
	} else {
		for _, i := range g.moves {
			args = append(args, &moves[i].Unit.Receipt)
		}
	}
	texts := make([]string, 0, 2*len(g.moves))
	for _, i := range g.moves {
		if head.To != ToQueue && head.To != ToBack {
			texts = append(texts, score(moves[i].Score))
		}
		if head.Payload != nil {
			texts = append(texts, unsafe.String(unsafe.SliceData(moves[i].Payload), len(moves[i].Payload)))
		}
	}
	for i := range texts {
		args = append(args, &texts[i])
	}
	return args
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
