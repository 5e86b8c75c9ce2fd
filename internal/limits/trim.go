package limits

import (
	"strconv"
	"time"

	"github.com/troupehq/troupe/internal/scores"
)

// Trim bounds the dead set after an insertion; zero fields do not trim. The head bound of package
// script carries it out.
type Trim struct {
	Before float64 // members with a score <= Before go
	Max    int     // keep Max-1 newest, as Sidekiq does
}

// TrimAt is the Trim of an insertion now into a set of most entries that are not older than age; 0
// and less mean unbounded.
func TrimAt(now time.Time, most int, age time.Duration) (t Trim) {
	if age > 0 {
		t.Before = scores.Of(now.Add(-age))
	}
	t.Max = max(most, 0)
	return t
}

// Text is t as scripts read it: 'BEFORE MAX', each empty if it does not trim.
func (t Trim) Text() string {
	before, most := "", ""
	if t.Before != 0 {
		before = scores.Format(t.Before)
	}
	if t.Max > 0 {
		most = strconv.Itoa(t.Max)
	}
	return before + " " + most
}
