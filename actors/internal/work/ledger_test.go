package work

import (
	"testing"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
)

// A fence takes the units of its incarnation and of those before, and none of a later one; what a call has said of them
// had no effect. A fence of an older incarnation that comes later gives none back.
func TestAFenceTakesTheUnitsOfItsIncarnation(t *testing.T) {
	var ws []*Item
	for inc := range uint64(4) {
		ws = append(ws, &Item{Unit: fetch.Unit{Incarnation: inc}})
	}
	var l Ledger
	harness.Equal(t, "entered", l.Add(ws), true)
	harness.Equal(t, "one has ended", l.Take(ws[1]), true)
	for _, inc := range []uint64{2, 1} {
		interrupted, late := l.Fenced(inc)
		if inc == 2 && (len(interrupted) != 2 || interrupted[0] != ws[0] || interrupted[1] != ws[2] || late != 1) {
			t.Errorf("the fence took %v, and %d settlements were late", interrupted, late)
		}
		if ours := l.Ours(append([]*Item(nil), ws...)); len(ours) != 1 || ours[0] != ws[3] {
			t.Errorf("after the fence of %d ours are %v", inc, ours)
		}
		if all := l.All(); len(all) != 1 || all[0] != ws[3] {
			t.Errorf("after the fence of %d there are %v", inc, all)
		}
	}
}
