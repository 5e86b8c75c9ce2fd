package job

import (
	"cmp"
	"strconv"
)

// Destination is where a job goes whose run has ended, or whose process has died.
type Destination int

// The destinations, as package fetch has them.
const (
	ToQueue    Destination = iota // the end of its queue that is popped next (RPUSH)
	ToRetry                       // the retry set
	ToSchedule                    // the schedule set
	ToDead                        // the dead set
	ToBack                        // the other end of its queue, or of another one, as a push
	ToStay                        // nowhere: it stays in progress
	ToNone                        // nowhere: it is done
)

// String is the name of the place in errors and logs.
func (p Destination) String() string {
	names := []string{ToQueue: "to queue", ToRetry: "to retry", ToSchedule: "to schedule", ToDead: "to dead", ToBack: "to the back", ToStay: "in progress", ToNone: "done"}
	if p >= 0 && int(p) < len(names) {
		return names[p]
	}
	return "to place " + strconv.Itoa(int(p))
}

// Outcome is a way in which a run ends, or what becomes of its job. Each has one row in rows:
// what the log, the metrics, the flight recorder, the traces and the pages say of it is read from there.
type Outcome uint8

// The outcomes. The first are those in which runs end (Ends).
const (
	Done        Outcome = iota
	Error               // the handler returned one, or none was found
	Panic               // or Goexit
	Interrupted         // to go on in another run
	Parked              // put off by its handler
	Moved               // to another queue, by its handler
	HandedOver          // to another queue, since its class has no handler or only a share of it is run
	Left                // in its queue, since its class has no handler
	Expired             // not run and dropped, since it was late
	Held                // not run, since a limit had no room
	CalledOff           // not run and dropped, since its batch was cancelled

	Failed // with Error or Panic; what becomes of the job follows
	Retried
	Died
	Dropped
	TooLate // its result was refused
	Cancelled
	Unresponsive
	Requeued  // at the deadline of a stop
	Rerouted  // of a dead process
	Suspected // likewise, to the suspects of its queue
	Poisoned  // of a dead process, into the dead set

	outcomes
)

// Ends is the number of outcomes that a run can end in. They are the outcomes below it.
const Ends = Failed

// The levels of log lines, with zerolog's numbers: this package is linked by who only pushes.
const (
	detail int8 = iota
	info
	warn
	failure
)

// row is what is said of an outcome.
type row struct {
	name   string      // in metrics and traces
	logged string      // in the log's field outcome, where that is not the name
	text   string      // of its log line; "" is none
	level  int8        // of that
	to     Destination // where the job goes, if the run itself sends it somewhere
	sends  bool        // it does
	kind   string      // of its event in the flight recorder; "" is none
	state  string      // whose sign that event has on pages
	counts bool        // jobs are counted as moves
}

var rows = [outcomes]row{
	Done:         {name: "done"}, // Config.DoneLevel is the level of its line
	Error:        {name: "error"},
	Panic:        {name: "panic"},
	Interrupted:  {name: "interrupted", to: ToBack, sends: true},
	Parked:       {name: "parked", text: "job parked", level: info, to: ToSchedule, sends: true, kind: "job parked", state: "paused"},
	Moved:        {name: "moved", text: "job moved", level: info, to: ToBack, sends: true, kind: "job moved", state: "quiet"},
	HandedOver:   {name: "handed", text: "job handed over", level: detail, to: ToBack, sends: true, kind: "class handed over", state: "quiet"},
	Left:         {name: "left", text: "job left in its queue", level: detail, to: ToBack, sends: true, kind: "class left", state: "quiet"},
	Expired:      {name: "expired", text: "job dropped: it has expired", level: info, to: ToNone, sends: true, kind: "job expired", state: "stopped"},
	Held:         {name: "held", text: "job held: a limit has no room", level: detail},
	CalledOff:    {name: "called_off", text: "job dropped: its batch was cancelled", level: detail},
	Failed:       {name: "failed", kind: "job failed", state: "warning"},
	Retried:      {name: "retried", logged: "retry", text: "job failed", level: warn, to: ToRetry, sends: true, kind: "job retried", state: "restarting", counts: true},
	Died:         {name: "died", logged: "dead", text: "job failed", level: failure, to: ToDead, sends: true, kind: "job died", state: "danger", counts: true},
	Dropped:      {name: "dropped", logged: "drop", text: "job failed", level: warn, kind: "job dropped", state: "stopped", counts: true},
	TooLate:      {name: "late", kind: "job late", state: "warning"},
	Cancelled:    {name: "cancelled", kind: "job cancelled", state: "stopped"},
	Unresponsive: {name: "unresponsive", kind: "job unresponsive", state: "unresponsive"},
	Requeued:     {name: "requeued", kind: "job requeued", state: "restarting", counts: true},
	Rerouted:     {name: "rerouted", kind: "job rerouted", state: "restarting", counts: true},
	Suspected:    {name: "suspected", kind: "job suspected", state: "warning"},
	Poisoned:     {name: "poisoned", kind: "job poisoned", state: "danger", counts: true},
}

// String is the name of the outcome in metrics and traces.
func (o Outcome) String() string { return rows[o].name }

// Logged is the log's field outcome.
func (o Outcome) Logged() string { return cmp.Or(rows[o].logged, rows[o].name) }

// Line is the level, a zerolog.Level, and the text of the log line that tells of it.
func (o Outcome) Line() (level int8, text string) { return rows[o].level, rows[o].text }

// To is where the run sends the job; false if nowhere.
func (o Outcome) To() (Destination, bool) { return rows[o].to, rows[o].sends }

// Kind is that of its event in the flight recorder; "" if there is none.
func (o Outcome) Kind() string { return rows[o].kind }

// Counts tells whether the jobs that it is the outcome of are counted as moves.
func (o Outcome) Counts() bool { return rows[o].counts }

// Moves are the outcomes that are counted as moves.
func Moves() (all []Outcome) {
	for o := range outcomes {
		if o.Counts() {
			all = append(all, o)
		}
	}
	return all
}

// EventStates are the signs of the events of jobs on pages, by kind.
func EventStates() map[string]string {
	states := map[string]string{}
	for _, r := range rows {
		if r.kind != "" {
			states[r.kind] = r.state
		}
	}
	return states
}
