//go:build claims

package fetch

// What the draft in package reliable needs of this one.

// Planner returns q.Wants, computed from tables made once where it draws by chance.
var Planner = planner

// Cause tells what can be seen of the end of a process from the process own.
var Cause = cause

// NewParcel is a group of size units.
func NewParcel(size int) *Parcel { return &Parcel{size: size} }
