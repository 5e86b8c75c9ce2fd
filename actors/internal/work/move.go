package work

import (
	"errors"
	"sync/atomic"

	"github.com/troupehq/troupe/fetch"
)

// Move is an outcome on its way to Redis. What is done with it is told once.
type Move struct {
	fetch.Move
	Item   *Item
	Result fetch.Result // Err is nil
	Err    error        // errGaveUp
	// Then is called when Result or Err is set, for a move that nobody waits for. A
	// panic or Goexit in it costs nobody else.
	Then func()

	Done    chan struct{} // closed when Result or Err is set; nil with Then
	Refused chan struct{} // closed when Redis has refused it, and it is tried again later; nil with Then

	over       bool // in Redis; guarded by the settler
	unanswered int  // calls that carried it alone; the flush loop's
	large      bool // it could not be sent, and the job goes into the dead set as it was fetched
}

// NewMove makes a Move that is waited for.
func NewMove(w *Item, m fetch.Move) *Move {
	m.Unit = w.Unit
	return &Move{Item: w, Move: m, Done: make(chan struct{}), Refused: make(chan struct{})}
}

// Stored tells whether a move that is over came into Redis by our hand.
func (m *Move) Stored() bool { return m.Err == nil && m.Result == fetch.Moved }

// errGaveUp is the error of a move that could not be written before the end.
var errGaveUp = errors.New("redis did not come back before the end of the stop; the job stays in progress")

const (
	// asyncMax is how many moves may be on their way while their slots go on
	// with other jobs: as many as two calls to Redis carry.
	asyncMax = 1000
	// asyncBytes bounds their payloads.
	asyncBytes = 16 << 20
)

// tally counts moves that nobody waits for, and the bytes of their payloads.
type tally struct{ moves, bytes atomic.Int64 }

// add counts m, or takes it off with a sign of -1.
func (t *tally) add(m *Move, sign int64) {
	t.moves.Add(sign)
	t.bytes.Add(sign * m.size())
}

// room tells whether m may be added.
func (t *tally) room(m *Move) bool {
	n := t.moves.Load()
	return n == 0 || n < asyncMax && t.bytes.Load()+m.size() <= asyncBytes
}

func (m *Move) size() int64 { return int64(len(m.Payload) + len(m.Unit.Payload) + m.Effects.Size()) }
