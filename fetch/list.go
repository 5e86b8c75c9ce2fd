package fetch

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/troupehq/troupe/internal/keys"
)

// list is a Redis list of jobs in progress, named by a field of the index: a claim, or
// the waiting list of a queue. The fetcher knows what is in it.
type list struct {
	field    string
	key      string
	queue    int        // of fetcher.names
	suspect  bool       // taken from the suspects of the queue
	inHand   []takenJob // in hand: taken and not settled, the oldest first
	next     uint64
	stamp    uint64 // see index.group
	mustRead bool   // to be read whatever its length: a job may have been refused
	mixed    bool   // Redis may have its jobs in another order
	lost     bool   // a blocked move into it was not answered: it may come late
}

// takenJob is one job; n tells it from others with the same bytes.
type takenJob struct {
	n       uint64
	payload []byte
	stamp   uint64 // of the last call that acked it
	unsure  bool   // it was moved, or its destination has refused it
	whole   bool   // a large one that Redis did not know by its name
}

func (l *list) waits() bool { return keys.IsWaiting(l.field) }

// addLocked notes jobs that the list has got, and puts their units into the stash.
func (l *list) addLocked(in *incarnation, jobs ...string) {
	text, ends := make([]byte, 0, 1024), make([]int, 0, keys.ClaimSize) // receipts share a string
	for i := range jobs {
		text = append(append(text, l.field...), '.')
		text = strconv.AppendUint(text, l.next+uint64(i), 10)
		ends = append(ends, len(text))
	}
	receipts, begin := string(text), 0
	for i, job := range jobs {
		l.inHand = append(l.inHand, takenJob{n: l.next, payload: bytesOf(job)})
		in.f.stash = append(in.f.stash, Unit{
			Queue: in.f.set.Load().names[l.queue], Payload: bytesOf(job), Receipt: receipts[begin:ends[i]], Incarnation: in.n, Suspect: l.suspect,
		})
		l.next, begin = l.next+1, ends[i]
	}
}

// find returns the index of a job in inHand, -1 if it is settled; a nil list has none.
func (l *list) find(n uint64) int {
	if l == nil {
		return -1
	}
	i, ok := slices.BinarySearchFunc(l.inHand, n, func(h takenJob, n uint64) int { return cmp.Compare(h.n, n) })
	if !ok {
		return -1
	}
	return i
}

// dropUnsure forgets the jobs that drop tells to have been moved.
func (l *list) dropUnsure(drop func(h *takenJob) bool) {
	l.inHand = slices.DeleteFunc(l.inHand, func(h takenJob) bool { return h.unsure && drop(&h) })
	for i := range l.inHand {
		l.inHand[i].unsure = false
	}
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

// part is one of the parts that a reply of take or pop is made of.
type part struct {
	kind string // c: a claim, t: a list whose length is not as expected, p: a paused queue, e: a faulty queue
	q    int    // number of the queue in the wants; t has none
	text string // the field of c and t, what is wrong of e
	jobs []string
}

// err is that of a part which nobody knows; nil if it is known.
func (p part) err() error {
	if p.kind != "" {
		return nil
	}
	return fmt.Errorf("unexpected reply %q", p.text)
}

// parts takes the reply of take or pop apart. One that it does not know is the last, and of kind "".
func parts(reply []string) iter.Seq[part] {
	return func(yield func(part) bool) {
		for more := true; more && len(reply) > 1; {
			q, _ := strconv.Atoi(reply[1])
			switch {
			case reply[0] == "c" && len(reply) > 3:
				q, _ := strconv.Atoi(reply[2])
				n, _ := strconv.Atoi(reply[3])
				more = yield(part{"c", q - 1, reply[1], reply[4 : 4+n]})
				reply = reply[4+n:]
			case reply[0] == "p":
				more = yield(part{kind: "p", q: q - 1})
				reply = reply[2:]
			case reply[0] == "e" && len(reply) > 2:
				more = yield(part{kind: "e", q: q - 1, text: reply[2]})
				reply = reply[3:]
			case reply[0] == "t":
				more = yield(part{kind: "t", text: reply[1]})
				reply = reply[2:]
			default:
				yield(part{text: reply[0]})
				return
			}
		}
	}
}

// bytesOf is s as bytes that nobody may modify.
func bytesOf(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}
