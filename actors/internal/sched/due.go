package sched

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// What a process is in a term; 0 is neither.
const (
	standby = 1
	leader  = 2
)

// ask is one call of due.lua.
type ask struct {
	term               *term
	as                 string        // identity; "" if no lock is wanted
	lock               time.Duration // life of the leader's lock; 0 gives it up
	ahead, timeout     time.Duration // how far ahead the next score is wanted (0: without end); of the call
	sets               []string
	from               []string // of each set the lowest score, as ZRANGE takes it
	skip, count, bytes int      // members to leave out from there on, and how much is wanted
	newest             bool
}

// answer is what it returns.
type answer struct {
	role int64
	left time.Duration // of another process's lock
	now  time.Time     // by Redis's clock; zero without sets
	bare bool          // none of the sets is there, if this is the leader
	sets []found       // none if bare, and if a look is not the leader's
}

// found is what is known of one set.
type found struct {
	members []string // lowest score first, unless the newest were asked for
	more    bool
	size    int       // of the first due member; 0 if none is due
	next    time.Time // score of the first one that is not due yet, zero for none
	err     error
}

// due carries out a.
func (s *Scheduler) due(ctx context.Context, a ask) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	names := []string{a.term.lock, a.term.standby}
	args := []any{a.as, a.lock.Milliseconds(), standbyLife.Milliseconds(), a.ahead.Seconds(), a.count, a.bytes, a.skip, a.newest}
	for i, set := range a.sets {
		names = append(names, set)
		args = append(args, a.from[i])
	}
	reply, err := dueScript.Run(ctx, s.cfg.Redis, names, args...).Slice()
	if err != nil {
		return answer{}, err
	}
	out := parseAnswer(reply)
	if out.bare && a.count == 0 && a.as != "" {
		return out, nil
	}
	if len(out.sets) != len(a.sets) {
		return answer{}, fmt.Errorf("due.lua: unexpected reply of %d values for %d sets", len(reply), len(a.sets))
	}
	return out, nil
}

// parseAnswer leaves out the sets from one on that it does not understand.
func parseAnswer(reply []any) (out answer) {
	if len(reply) < 3 {
		return out
	}
	number := func(v any) int64 { n, _ := v.(int64); return n }
	text := func(v any) string { t, _ := v.(string); return t }
	out.role, out.left, out.now = number(reply[0]), time.Duration(number(reply[1]))*time.Millisecond, timeOf(text(reply[2]))
	out.bare = len(reply) == 3
	for _, v := range reply[3:] {
		part, _ := v.([]any)
		if len(part) < 4 {
			return out
		}
		f := found{next: timeOf(text(part[1])), size: int(number(part[2])), more: number(part[3]) == 1}
		if fault := text(part[0]); fault != "" {
			f.err = errors.New(strings.TrimPrefix(fault, "ERR "))
		}
		for _, member := range part[4:] {
			f.members = append(f.members, text(member))
		}
		out.sets = append(out.sets, f)
	}
	return out
}

// timeOf is the time of a score, zero for "". It rounds up to microseconds, so that at
// that time the member is due. Scores outside of the years 1970 to 2286 become one of
// the two ends: due at once, or never.
func timeOf(score string) time.Time {
	if score == "" {
		return time.Time{}
	}
	f, _ := strconv.ParseFloat(score, 64) // ±Inf beside an error is as good
	return time.UnixMicro(int64(math.Ceil(min(max(f, 0), 1e10) * 1e6)))
}
