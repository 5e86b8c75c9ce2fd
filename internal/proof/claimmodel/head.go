package claimmodel

import (
	"strconv"
	"strings"
)

// Times, in ticks of the model. A day is what a tombstone and a closed list live.
const (
	lease = 12
	third = lease / 3 // between two renewals, and the longest wait
	day   = 150
)

const (
	ours   = "!"      // the field of a place that says whose it is: "GENERATION CALL", or fenced
	fenced = "fenced" // what a tombstone has there
	closed = "closed" // what a closed list is
)

// Address is where one owner keeps what it has of one slot: all keys of a script
// but the queues and the destinations of jobs.
type Address struct {
	ID       string
	Place    string // hash: ours, and the name of each list → its queue
	Lists    string // what the keys of its lists begin with
	Registry string // hash: ID → layout and queues; in the slot of the place
	Lease    string // "" where it lies in another slot
}

func (a Address) list(name string) string { return a.Lists + name }

// waitingName is the name of the waiting list of a queue; a claim's is CALL.N.
func waitingName(queue string) string { return "w:" + queue }

func isWaiting(name string) bool { return strings.HasPrefix(name, "w:") }

// Mark is the field "!" of a place.
type Mark struct {
	Gen, Call int
	Fenced    bool
}

func (m Mark) String() string { return strconv.Itoa(m.Gen) + " " + strconv.Itoa(m.Call) }

func parseMark(text string) Mark {
	gen, number, ok := strings.Cut(text, " ")
	if !ok {
		return Mark{Fenced: true}
	}
	var m Mark
	m.Gen, _ = strconv.Atoi(gen)
	m.Call, _ = strconv.Atoi(number)
	return m
}

// Verdict is what a script found in the place.
type Verdict string

// All but OK mean that the script has changed nothing.
const (
	OK       Verdict = "ok"
	Done     Verdict = "done"              // the number is there already
	Fenced   Verdict = "fenced"            // a rescuer was there
	Missing  Verdict = "missing"           // Redis has forgotten the place
	Stranger Verdict = "generation"        // not the generation of the call
	Forgot   Verdict = "forgot"            // Redis has forgotten a call that it had answered
	Alive    Verdict = "alive"             // of a rescuer's script: the owner is not fenced
	Failed   Verdict = "error"             // the reply is an error of Redis, or of the script half-way
	Lost     Verdict = "connection broken" // nobody knows
)

// Reply is what the scripts return, in one type for all of them.
type Reply struct {
	Verdict Verdict
	Mark    Mark             // of Resync: what it found; Gen 0 if there was no place
	Claims  []Claimed        // of Take
	Lists   map[string]Found // of Resync and Fence: name → what is there
	Jobs    []string         // of Page and a blocked move
	Refused []string         // jobs whose destination answered with an error
	Last    bool             // of Vacate: nothing is left of the owner
	Nothing bool             // of Take: there was nothing to do; the number is as it was

	Held   bool // of Admit: its limit holds the job
	Passed bool // of Admit: it has come in, and others are held

	ByNumber bool // there is none: its number has told that it was done
}

// Claimed is a claim that a take has made.
type Claimed struct {
	Name, Queue string
	Jobs        []string
}

// Found is a list that a place names.
type Found struct {
	Queue string
	Len   int
}

// Head is what every call of an owner begins with: "!" is to be "Gen Prev", and
// will be "Gen Call".
type Head struct {
	Address
	Gen, Prev, Call int
	rules           *Without
}

// enter begins a call. The first command writes, and is allowed out of memory:
// after it Redis refuses nothing of the script. It must not be PERSIST of the
// place, which would make tombstones live for ever; HDEL of a field that does not
// exist does it.
func (h Head) enter(c *call) (Mark, Verdict) {
	h.open(c)
	text, err := c.hget(h.Place, ours)
	if err != nil {
		return Mark{}, Failed
	}
	if text == "" {
		return Mark{}, Missing
	}
	m := parseMark(text)
	switch {
	case m.Fenced && h.rules.FencedHead:
		m = Mark{Gen: h.Gen, Call: h.Prev}
	case m.Fenced:
		return m, Fenced
	case m.Gen != h.Gen && !h.rules.Generations:
		return m, Stranger
	case m.Call == h.Call && !h.rules.Numbers:
		return m, Done
	case m.Call != h.Prev && m.Call != h.Call && !h.rules.ExactNumber:
		return m, Forgot
	}
	if h.rules.LastNumber {
		h.leave(c, m)
	}
	return m, OK
}

func (h Head) open(c *call) {
	switch {
	case h.rules.WriteBeforeAll:
	case h.rules.LastingTTL:
		c.expire(h.Place, 0)
	default:
		c.hdel(h.Place, "")
	}
}

// leave ends a call: its number is the last that it writes.
func (h Head) leave(c *call, m Mark) {
	m.Call = h.Call
	if _, err := c.touch(h.Place, aHash, false, false); err == nil {
		c.hset(h.Place, ours, m.String()) //nolint:errcheck // was read above, so it is a hash
	}
}
