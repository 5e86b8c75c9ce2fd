package actors

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/retry"
	"github.com/troupehq/troupe/fetch"
)

// Unknown says what becomes of a job whose class has neither a handler nor an alias, where there is
// no handler of troupe.AnyClass. The zero value fails it with a troupe.UnknownClassError: it is retried,
// perhaps by a process that has a handler. With either field it has not failed: no retry is used up,
// nothing is written about a failure, it counts neither as processed nor as failed, and no error handler
// is told. A job without a class always fails. The log warns once of each class.
type Unknown struct {
	// Queue is another queue, to which it is handed over as troupe.MoveTo does it: for a daemon that
	// takes from queues in which another program's jobs are, too, while that program takes from this one.
	// The capsules of this daemon take from other queues.
	Queue string
	// Leave puts it back at the end of its queue, as it is, for another process that takes from that queue. The
	// processor then pauses for a second, so that jobs which nobody runs are not moved all the time.
	Leave bool
}

// handing is a queue to which a capsule hands jobs over.
type handing struct {
	field string // that names it
	queue string
}

// handings are the queues to which the capsule hands jobs over, and what is missing.
func (k Capsule) handings(field string, r *troupe.Registry) (all []handing, errs []error) {
	if q := k.Unknown.Queue; q != "" {
		all = append(all, handing{field + "Unknown.Queue", q})
	}
	if r == nil {
		return all, nil
	}
	for _, class := range r.Classes() {
		e, _ := r.Lookup(class)
		percent, _ := e.Options.Take.Percent()
		if percent >= 100 {
			continue
		}
		switch {
		case k.Wire != nil && k.Wire.Rules != nil && k.Wire.Rules.Stays:
			errs = append(errs, fmt.Errorf("Take of class %q is %v percent, expected none beside a capsule (%s) of %s, whose jobs stay in their queue: give that a daemon of its own", class, percent, cmp.Or(k.Name, "default"), k.Wire.Name)) //nolint:staticcheck // the name of a field
		case e.Options.RestQueue != "":
			all = append(all, handing{fmt.Sprintf("RestQueue of class %q", class), e.Options.RestQueue})
		case k.Unknown.Queue == "":
			errs = append(errs, fmt.Errorf("%sUnknown.Queue is empty, expected a queue for the jobs of class %q that Take leaves, or a RestQueue of the class", field, class))
		}
	}
	return all, errs
}

// key is what the capsule's system calls a queue.
func (k Capsule) key(queue string) string {
	if k.Wire == nil || k.Wire.Key == nil {
		return "queue:" + queue
	}
	return k.Wire.Key("queue:" + queue)
}

// checkUnknown tells what is wrong with where the capsules hand jobs over. fields name the capsules.
func checkUnknown(capsules []Capsule, fields []string, r *troupe.Registry) (errs []error) {
	for i, k := range capsules {
		u, field := k.Unknown, fields[i]
		bad := func(value any, want string) {
			errs = append(errs, fmt.Errorf("%sUnknown is %v, expected %s", field, value, want))
		}
		set := u != (Unknown{})
		switch {
		case u.Queue != "" && u.Leave:
			bad(fmt.Sprintf("%+v", u), "one of Queue and Leave")
		case set && r != nil && slices.Contains(r.Classes(), troupe.AnyClass):
			bad(fmt.Sprintf("%+v", u), "none, as there is a handler of troupe.AnyClass: no class is without one")
		case u.Leave && k.Wire != nil && k.Wire.Fetch != nil:
			bad(fmt.Sprintf("%+v", u), "none with "+k.Wire.Name+", where each fetch of a job counts as an attempt")
		}
		to, missing := k.handings(field, r)
		errs = append(errs, missing...)
		for _, h := range to {
			if err := checkHanding(k, h, capsules); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

// checkHanding tells why k cannot hand jobs over to a queue.
func checkHanding(k Capsule, h handing, capsules []Capsule) error {
	var policy retry.Policy
	if k.Wire != nil {
		policy.Rules = k.Wire.Rules
	}
	if err := policy.Moves("", h.queue); err != nil {
		return fmt.Errorf("%s: %w", h.field, err)
	}
	for _, other := range capsules {
		for _, queue := range namesOf(other.Queues) {
			if other.key(queue) == k.key(h.queue) {
				return fmt.Errorf("%s is %q, expected a queue that this daemon does not take from: capsule %s does, and jobs would circle", h.field, h.queue, cmp.Or(other.Name, "default"))
			}
		}
	}
	return nil
}

// namesOf are those of the queues of a capsule.
func namesOf(q fetch.Queues) []string {
	if q == nil {
		return []string{"default"}
	}
	return q.List().Names()
}
