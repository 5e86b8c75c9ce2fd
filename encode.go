package troupe

import "fmt"

// EncodeError says which part of a Go value has no place in a job: see
// Payload.SetJSON. A push returns it, too.
type EncodeError struct {
	Path   string // from the value down: "[2].Price", `["k"]`; "" for the value itself
	Reason string
	Err    error // of a MarshalJSON or MarshalText method, else nil
}

func (e *EncodeError) Error() string {
	where := ""
	if e.Path != "" {
		where = " " + e.Path
	}
	if e.Err != nil {
		return fmt.Sprintf("encode JSON%s: %s: %v", where, e.Reason, e.Err)
	}
	return fmt.Sprintf("encode JSON%s: %s", where, e.Reason)
}

func (e *EncodeError) Unwrap() error { return e.Err }
