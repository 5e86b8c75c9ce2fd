package fetch

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// isWaiting tells whether a field of a place is that of a waiting list: w:QUEUE, w2:QUEUE and
// so on, one for each waiter of the queue. The others are numbers of claims.
func isWaiting(field string) bool { return strings.HasPrefix(field, "w") }

// list is a Redis list of jobs in progress, named by a field of the place: a claim, or
// the waiting list of a queue. The fetcher knows what is in it.
type list struct {
	field   string
	key     string
	queue   int  // of fetcher.names
	suspect bool // taken from the suspects of the queue
	since   int64
	held    []held // in hand: taken and not settled, the oldest first
	next    uint64
	stamp   uint64 // see place.group
}

// held is one job; n tells it from others with the same bytes.
type held struct {
	n       uint64
	payload []byte
	stamp   uint64 // of the last call that acked it
	unsure  bool   // it was moved, or its destination has refused it
}

func (l *list) waits() bool { return isWaiting(l.field) }

// add notes jobs that the list has got and returns their units.
func (l *list) add(in *incarnation, payloads ...[]byte) []Unit {
	units := make([]Unit, len(payloads))
	var text strings.Builder
	var ends [65]int
	for i := range payloads {
		text.WriteString(l.field)
		text.WriteByte('.')
		text.WriteString(strconv.FormatUint(l.next+uint64(i), 10))
		if i < len(ends) {
			ends[i] = text.Len()
		}
	}
	all, begin := text.String(), 0
	for i, p := range payloads {
		l.held = append(l.held, held{n: l.next, payload: p})
		end := ends[min(i, len(ends)-1)]
		receipt := all[begin:end]
		if i >= len(ends) { // never of a claim
			receipt = l.field + "." + strconv.FormatUint(l.next, 10)
		}
		units[i] = Unit{
			Queue: in.f.names[l.queue], Payload: p, Receipt: receipt, Incarnation: in.n, Suspect: l.suspect,
		}
		l.next, begin = l.next+1, end
	}
	return units
}

// find returns the index of a job in held, -1 if it is settled.
func (l *list) find(n uint64) int {
	i, ok := slices.BinarySearchFunc(l.held, n, func(h held, n uint64) int { return cmp.Compare(h.n, n) })
	if !ok {
		return -1
	}
	return i
}

// drop forgets a job that is settled.
func (l *list) drop(n uint64) {
	if i := l.find(n); i >= 0 {
		l.held = slices.Delete(l.held, i, i+1)
	}
}

// unsure marks a job that was moved, unless its destination has refused it.
func (l *list) unsure(n uint64) {
	if i := l.find(n); i >= 0 {
		l.held[i].unsure = true
	}
}

// dropUnsure forgets the jobs that drop tells to have been moved.
func (l *list) dropUnsure(drop func(h *held) bool) {
	l.held = slices.DeleteFunc(l.held, func(h held) bool { return h.unsure && drop(&h) })
	for i := range l.held {
		l.held[i].unsure = false
	}
}

// value is what the place says of the list.
func (l *list) value(f *fetcher) string {
	return listName(f.names[l.queue], l.suspect) + " " + strconv.FormatInt(cmp.Or(l.since, time.Now().UnixMilli()), 10)
}

// parseReceipt takes a receipt apart.
func parseReceipt(receipt string) (field string, n uint64, ok bool) {
	dot := strings.LastIndexByte(receipt, '.')
	if dot < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(receipt[dot+1:], 10, 64)
	return receipt[:dot], n, err == nil
}
