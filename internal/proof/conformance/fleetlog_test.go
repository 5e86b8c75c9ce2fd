package conformance

import "fmt"

// fleetRun is one run of one job.
type fleetRun struct {
	fleetNote        // of its start
	outcome   string // ok, failed, interrupted; "" if the process ended before it was written down
	refused   bool   // it was put back while it ran: whatever it came to, it runs again
}

func (r *fleetRun) String() string {
	text := fmt.Sprintf("%s %d after %d failures from %s: %s", r.Side, r.PID, r.Failures, r.Queue, r.outcome)
	if r.refused {
		text += " (put back)"
	}
	return text
}

// fleetLog is what the notes of the fleet come to.
type fleetLog struct {
	offset int64
	runs   map[string]*fleetRun   // by Run
	of     map[string][]*fleetRun // by jid, in order of starts
	counts map[string]int         // of runs by side and outcome: "go ok"
}

// read takes in what was noted since the last call.
func (l *fleetLog) read(f *fleet) {
	f.t.Helper()
	if l.runs == nil {
		l.runs, l.of, l.counts = map[string]*fleetRun{}, map[string][]*fleetRun{}, map[string]int{}
	}
	texts, err := f.notes.LRange(f.t.Context(), fleetNotes, l.offset, -1).Result()
	f.must(err)
	l.offset += int64(len(texts))
	for _, text := range texts {
		var n fleetNote
		decode(f.t, text, &n)
		if n.What == "start" {
			r := &fleetRun{fleetNote: n}
			l.runs[n.Run] = r
			l.of[n.JID] = append(l.of[n.JID], r)
			continue
		}
		l.runs[n.Run].outcome = n.Outcome
		l.counts[n.Side+" "+n.Outcome]++
	}
}

// seen is what has happened so far.
type fleetSeen struct {
	Runs, Ok, Failed, Interrupted map[string]int // by side
	Crossed                       int            // runs after a failure or a stop on the other side
}

func (l *fleetLog) seen() fleetSeen {
	s := fleetSeen{map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}, 0}
	for _, side := range []string{"go", "ruby"} {
		s.Ok[side], s.Failed[side], s.Interrupted[side] = l.counts[side+" ok"], l.counts[side+" failed"], l.counts[side+" interrupted"]
		s.Runs[side] = s.Ok[side] + s.Failed[side] + s.Interrupted[side]
	}
	for _, runs := range l.of {
		for i, r := range runs[1:] {
			if r.Side != runs[i].Side {
				s.Crossed++
			}
		}
	}
	return s
}
