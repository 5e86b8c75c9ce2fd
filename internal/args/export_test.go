package args

import "reflect"

// Read is the general way, which ReadSimple must agree with.
func (p *Plan) Read(raw []byte, v reflect.Value) *Fault { return p.read(raw, v) }
