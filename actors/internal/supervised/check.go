package supervised

import (
	"fmt"
	"reflect"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/supervisor"
)

// Strategies are the strategies of a Config by what they are, with the field where
// each stands: one has the state of one supervisor, and is called by it alone.
type Strategies map[any]string

// Check reports the faults of s, the strategy of field.
func (p Strategies) Check(field string, s actor.SupervisorStrategy) (errs []error) {
	v := reflect.ValueOf(s)
	if !v.IsValid() {
		return nil
	}
	if c, ok := s.(interface{ Validate() error }); ok {
		var err error
		if perr := Isolate(func() { err = c.Validate() }); perr != nil {
			err = fmt.Errorf("method Validate of a %T: %w", s, perr)
		}
		if err != nil {
			return []error{fmt.Errorf("config: %s: %w", field, err)}
		}
	}
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return []error{fmt.Errorf("config: %s is a nil %T, expected a strategy", field, s)}
	}
	var same string
	note := func(key any) {
		if p[key] != "" {
			same = p[key]
		}
		p[key] = field
	}
	if v.Kind() == reflect.Pointer && v.Type().Elem().Size() > 0 { // what has no state may stand anywhere
		note(s)
	}
	if base := embedded(v); base != nil && any(base) != any(s) {
		note(base)
	}
	if same != "" {
		errs = append(errs, fmt.Errorf("config: %s is the same value as %s, expected a strategy of its own: it counts the restarts of one place", field, same))
	}
	return errs
}

// embedded is the supervisor.Strategy that a user's strategy is built on, nil if there is none.
func embedded(v reflect.Value) (base *supervisor.Strategy) {
	if v = reflect.Indirect(v); v.Kind() == reflect.Struct {
		_ = Isolate(func() { base, _ = reflect.TypeAssert[*supervisor.Strategy](v.FieldByName("Strategy")) })
	}
	return base
}
