package args

import "reflect"

// Read is the general way, which ReadSimple must agree with.
func (p *Plan) Read(raw []byte, v reflect.Value) *Fault { return p.read(raw, v) }

// ReadSimple is the quick way, for v, a pointer; false if it gives up.
func (p *Plan) ReadSimple(raw []byte, v reflect.Value) bool {
	return p.simple && p.readSimple(raw, v.UnsafePointer())
}
