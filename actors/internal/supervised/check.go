package supervised

import (
	"fmt"
	"reflect"

	"github.com/troupehq/troupe/supervisor"
)

// Check reports the faults of s, the strategy of a field of Config.
func Check(field string, s *supervisor.Strategy) error {
	if s == nil {
		return nil
	}
	err := s.Validate()
	foreign := s.Protoactor()
	if c, ok := foreign.(interface{ Validate() error }); ok {
		if perr := Isolate(func() { err = c.Validate() }); perr != nil {
			err = fmt.Errorf("method Validate of a %T: %w", foreign, perr)
		}
	}
	if v := reflect.ValueOf(foreign); err == nil && v.Kind() == reflect.Pointer && v.IsNil() {
		err = fmt.Errorf("it is a nil %T, expected a strategy", foreign)
	}
	if err != nil {
		return fmt.Errorf("config: %s: %w", field, err)
	}
	return nil
}
