package show

import (
	"fmt"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

// Each job is counted for its limit, or for all others, whatever the key.
func TestHoldsAreCounted(t *testing.T) {
	names := []string{"a:b"} // as the gem sidekiq-throttled may name one
	for i := range 60 {
		names = append(names, fmt.Sprint("l", i))
	}
	h := NewHolds(names)
	for _, rule := range []string{"l0", "l0:key", "a%3Ab:x:y", "l59", "none:l0"} {
		h.Note(rule)
	}
	all := h.Of([][]string{{"l0:1", "l1"}, {"l0:2"}, {"l59"}})
	harness.Equal(t, "how many are named", len(all), maxLimits)
	harness.Equal(t, "they are", fmt.Sprint(all[0], all[1], all[2], all[maxLimits-1]), "{a:b 0 1} {l0 2 2} {l1 1 0} { 1 2}")
	harness.Equal(t, "without limits", len(NewHolds(nil).Of(nil)), 0)
}
