package job

import (
	"errors"
	"slices"
	"sync"
)

// Push is a job on its way into Redis.
type Push struct {
	Queue   string // bare name
	Score   string // of the member of the schedule set, in seconds since the epoch; "" puts the job into Queue
	Payload []byte
	Lock    *Lock // of a unique job: it enters unless another one holds this; nil: it is not unique
	Batch   *Join // that it enters; nil: none. Without a Payload nothing more enters that
}

// What a run keeps at most.
const (
	KeptJobs  = 1000
	KeptBytes = 1 << 20
)

var (
	// ErrKeptFull is a push more than a run keeps.
	ErrKeptFull = errors.New("the run keeps as much as it can")
	// ErrEnded is a push after the end of the run.
	ErrEnded = errors.New("the run has ended")
)

// Kept are the pushes that a run keeps until its job is done: see client.Within. Those of an iterable job go with
// its cursor: what the items before it have pushed.
type Kept struct {
	// Reaches tells whether a push may be kept for a key; if not, why. nil: for every key.
	Reaches func(push *Push) error
	parent  string // jid of the job

	mu     sync.Mutex
	send   func(pushes []Push) error // nil until SendBy
	pushes []Push
	bytes  int
	before int // how many of them are of the items before the cursor
	ended  bool
	used   bool
}

// NewKept are the pushes of a run of the job with this jid.
func NewKept(jid string) *Kept { return &Kept{parent: jid} }

// SendBy sets how Send pushes, if that is not set.
func (k *Kept) SendBy(send func(pushes []Push) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.send == nil {
		k.send = send
	}
}

// Send pushes at once by the client that has kept something, for who runs handlers without a daemon.
func (k *Kept) Send(pushes []Push) error {
	k.mu.Lock()
	send := k.send
	k.mu.Unlock()
	if send == nil || len(pushes) == 0 {
		return nil
	}
	return send(pushes)
}

// Add keeps pushes: all of them or, with an error, none.
func (k *Kept) Add(pushes ...Push) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return ErrEnded
	}
	size := 0
	for i := range pushes {
		if k.Reaches != nil {
			if err := k.Reaches(&pushes[i]); err != nil {
				return err
			}
		}
		size += len(pushes[i].Payload)
	}
	if len(k.pushes)+len(pushes) > KeptJobs || k.bytes+size > KeptBytes {
		return ErrKeptFull
	}
	for _, p := range pushes {
		if p.Payload != nil {
			p.Payload = withParent(p.Payload, k.parent)
		}
		k.pushes = append(k.pushes, p)
	}
	k.bytes += size
	k.used = k.used || len(pushes) > 0
	return nil
}

// Used tells whether something was ever kept.
func (k *Kept) Used() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used
}

// Moved notes that the cursor of an iterable job has moved on to its next item. It tells whether so much is kept
// that the cursor is to be saved now.
func (k *Kept) Moved() (save bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.before = len(k.pushes)
	return k.before >= KeptJobs/2 || k.bytes >= KeptBytes/2
}

// Drop forgets what the item at hand has pushed.
func (k *Kept) Drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pushes = k.pushes[:k.before]
	k.bytes = 0
	for i := range k.pushes {
		k.bytes += len(k.pushes[i].Payload)
	}
}

// Before takes out what the items before the cursor have pushed.
func (k *Kept) Before() []Push {
	k.mu.Lock()
	defer k.mu.Unlock()
	pushes := slices.Clone(k.pushes[:k.before])
	k.pushes, k.before = slices.Delete(k.pushes, 0, k.before), 0
	for i := range pushes {
		k.bytes -= len(pushes[i].Payload)
	}
	return pushes
}

// End takes out what is there, or only what the items before the cursor have pushed. After it nothing is kept any
// more. A nil Kept has nothing.
func (k *Kept) End(all bool) []Push {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	pushes := k.pushes
	if !all {
		pushes = pushes[:k.before]
	}
	k.pushes, k.before, k.ended = nil, 0, true
	return pushes
}
