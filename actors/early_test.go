package actors

import (
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// A stop that is begun while Start has not come to its end, by a limit that is reached at the first
// look, say, is carried out.
func TestAStopDuringTheStart(t *testing.T) {
	rdb, _ := redistest.New(t)
	d := harness.Must(New(Config{Redis: rdb, Registry: new(troupe.Registry), Concurrency: 3}))(t)
	d.beginStop(time.Minute)
	harness.OK(t, d.Start(t.Context()))
	select {
	case <-d.Done():
	case <-time.After(time.Minute):
		t.Fatal("it runs on")
	}
	harness.Check(t, d.Err())
}
