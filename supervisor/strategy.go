package supervisor

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Strategy is how a supervisor deals with children that fail: what OneForOne, AllForOne,
// RestForOne, Default and FromProtoactor return. Except for what FromProtoactor was given it
// has no state, and may be given to several supervisors: each counts for itself. The zero value
// is refused.
type Strategy struct {
	kind    string
	spec    Spec // as it was given
	foreign any  // of FromProtoactor
}

// Default is the strategy of every supervisor that is given none: OneForOne(Spec{}).
func Default() *Strategy { return OneForOne(Spec{}) }

// OneForOne restarts the child that failed.
func OneForOne(s Spec) *Strategy { return &Strategy{kind: "one_for_one", spec: s} }

// AllForOne restarts every child when one fails: for children that must not go
// on without each other. While a backoff runs none of them takes a message.
func AllForOne(s Spec) *Strategy { return &Strategy{kind: "all_for_one", spec: s} }

// RestForOne restarts the child that failed and those started after it.
func RestForOne(s Spec) *Strategy { return &Strategy{kind: "rest_for_one", spec: s} }

// Kind is one_for_one, all_for_one, rest_for_one, or "" for a Strategy of FromProtoactor.
func (s *Strategy) Kind() string { return s.kind }

// Spec is what s was made from, with the defaults filled in.
func (s *Strategy) Spec() Spec { return s.spec.withDefaults() }

// Protoactor is what FromProtoactor was given, nil for other strategies.
func (s *Strategy) Protoactor() any { return s.foreign }

// String tells all but the decider, like "one_for_one, 20 restarts in 1m0s,
// backoff 100ms..5s, jitter 0.2, replace", without what s does not do.
func (s *Strategy) String() string {
	if s.foreign != nil {
		return fmt.Sprintf("%T", s.foreign)
	}
	spec := s.Spec()
	text := fmt.Sprintf("%s, %d restarts in %s", s.kind, spec.Intensity, spec.Period)
	if b := spec.Backoff; b.Min > 0 {
		text += fmt.Sprintf(", backoff %s..%s", b.Min, b.Max)
		if b.Jitter > 0 {
			text += fmt.Sprintf(", jitter %g", b.Jitter)
		}
	}
	if spec.Replace {
		text += ", replace"
	}
	return text
}

// Validate reports the faults of the Spec that s was made from.
func (s *Strategy) Validate() error {
	if s == nil || s.kind == "" && s.foreign == nil {
		return errors.New("supervisor: the Strategy is nil or empty, expected one made by OneForOne, AllForOne, RestForOne, Default or FromProtoactor")
	}
	return s.spec.validate()
}

// withDefaults fills in what is zero, and makes zero what is none.
func (s Spec) withDefaults() Spec {
	s.Intensity = max(cmp.Or(s.Intensity, 20), 0)
	if s.Period <= 0 {
		s.Period = time.Minute
	}
	if s.Backoff == (Backoff{}) {
		s.Backoff = Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.2}
	}
	if s.Backoff.Min <= 0 {
		s.Backoff = Backoff{}
	} else if s.Backoff.Max <= 0 {
		s.Backoff.Max = time.Hour
	}
	return s
}
