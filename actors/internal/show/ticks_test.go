package show

import (
	"fmt"
	"testing"
	"time"

	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
)

// Each tick is counted for its periodic job, or for all others, with what was missed before it; how late
// it is counts if a job was pushed.
func TestTicksAreCounted(t *testing.T) {
	var names []string
	for i := range 60 {
		names = append(names, fmt.Sprint("p", i))
	}
	n := NewTicks(names)
	for _, e := range []event.PeriodicTicked{
		{Name: "p0", What: "pushed", Late: 3 * time.Second, Missed: 2}, {Name: "p0", What: "missed", Missed: 4}, {Name: "p59", What: "pushed"}, {Name: "of Ruby", What: "disabled"},
	} {
		n.Note(e)
	}
	n.Note(event.PeriodicStuck{Name: "p0"})
	all, late := n.of()
	harness.Equal(t, "how many are named", len(all), maxPeriodic)
	harness.Equal(t, "p0", fmt.Sprint(all[0]), "{p0 map[disabled:0 missed:1 overlapped:0 pushed:1 repeated:0 stopped:0] 7}")
	harness.Equal(t, "others", fmt.Sprint(all[maxPeriodic-1]), "{ map[disabled:1 missed:0 overlapped:0 pushed:1 repeated:0 stopped:0] 0}")
	harness.Equal(t, "sum of the late ones", late.Sum, 3*time.Second)
}
