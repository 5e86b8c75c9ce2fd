// Package args maps the arguments of a job, a JSON array, to Go types: positions to the
// fields of a struct, one value, or a slice. See troupe.Args for the rules.
package args

import (
	"fmt"
	"reflect"

	"github.com/troupehq/troupe/internal/wirejson"
)

// Fault tells which argument does not fit: see troupe.ArgsError.
type Fault struct {
	Index    int
	Field    string
	Expected string
	Got      string
	Err      error
}

// Decode sets v from an array.
func (p *Plan) Decode(raw []byte, v reflect.Value) *Fault {
	v.SetZero()
	if p.simple && p.readSimple(raw, v.Addr().UnsafePointer()) {
		return nil
	}
	return p.read(raw, v)
}

// read is the general way to set v from an array.
func (p *Plan) read(raw []byte, v reflect.Value) *Fault {
	var room [8][]byte
	list, fault := split(raw, room[:0])
	if fault != nil {
		return fault
	}
	v.SetZero()
	if fault := p.decode(list, v); fault != nil {
		return fault
	}
	return nil
}

// split returns the texts of the elements of an array.
func split(raw []byte, list [][]byte) ([][]byte, *Fault) {
	const array = "an array"
	i := wirejson.SkipSpace(raw, 0)
	if i == len(raw) {
		return nil, nil
	}
	if raw[i] != '[' {
		if at, fault := wirejson.ScanWhole(raw, 1); fault != "" {
			return nil, invalid(at, fault)
		}
		if raw[i] == 'n' {
			return nil, nil
		}
		return nil, &Fault{Index: -1, Expected: array, Got: wirejson.KindOf(raw[i:])}
	}
	i = wirejson.SkipSpace(raw, i+1)
	for first := true; ; first = false {
		if first && i < len(raw) && raw[i] == ']' {
			break
		}
		end, fault := wirejson.ScanValue(raw, i, 2)
		if fault != "" {
			return nil, invalid(end, fault)
		}
		list = append(list, raw[i:end:end])
		i = wirejson.SkipSpace(raw, end)
		if i < len(raw) && raw[i] == ']' {
			break
		}
		if i >= len(raw) || raw[i] != ',' {
			return nil, invalid(i, "expected , or ] after a value")
		}
		i = wirejson.SkipSpace(raw, i+1)
	}
	if i = wirejson.SkipSpace(raw, i+1); i < len(raw) {
		return nil, invalid(i, "text after the array")
	}
	return list, nil
}

func invalid(at int, fault string) *Fault {
	return &Fault{Index: -1, Expected: "an array", Got: fmt.Sprintf("invalid JSON at byte %d: %s", at, fault)}
}
