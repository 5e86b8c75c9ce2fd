package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/args"
	"github.com/troupehq/troupe/internal/wirejson"
)

// EncodeJSON returns v by the rules of troupe.Payload.SetJSON, or fails with a
// *troupe.EncodeError.
func EncodeJSON(v any) ([]byte, error) {
	text, fault := wirejson.Encode(v, 0)
	if fault != nil {
		return nil, (*troupe.EncodeError)(fault)
	}
	return text, nil
}

// EncodeArgs returns v, a value of a type of arguments or a pointer to one, as the JSON array of
// a payload's "args", by the rules of troupe.Args. It fails as EncodeJSON does.
func EncodeArgs(v any) (json.RawMessage, error) {
	rv := reflect.ValueOf(v)
	for rv.IsValid() && rv.Kind() == reflect.Pointer {
		rv = rv.Elem()
	}
	if !rv.IsValid() {
		return nil, errors.New("encode args: nil value")
	}
	plan, err := args.PlanOf(rv.Type())
	if err != nil {
		return nil, fmt.Errorf("encode args: %w", err)
	}
	text, fault := plan.Encode(rv)
	if fault != nil {
		return nil, fmt.Errorf("encode args: %w", (*troupe.EncodeError)(fault))
	}
	return text, nil
}
