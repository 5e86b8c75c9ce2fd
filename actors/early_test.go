package actors

import (
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// A stop that is begun while Start has not come to its end, by a limit that is reached at the first
// look, say, is carried out.
func TestAStopDuringTheStart(t *testing.T) {
	rdb, _ := redistest.New(t)
	d, err := New(Config{Redis: rdb, Registry: new(troupe.Registry), Concurrency: 3})
	if err != nil {
		t.Fatal(err)
	}
	d.beginStop(time.Minute)
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.Done():
	case <-time.After(time.Minute):
		t.Fatal("it runs on")
	}
	if err := d.Err(); err != nil {
		t.Error(err)
	}
}
