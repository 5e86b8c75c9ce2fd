package retry

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/scores"
)

// Whatever the job says about retries, and whatever its class would answer.
func TestAParkLeavesNoTrace(t *testing.T) {
	for _, payload := range []string{
		`{"queue":"default","args":[],"class":"A"}`,
		`{"queue":"default","args":[],"retry":false}`,
		`{"queue":"default","args":[],"retry":0,"dead":false}`,
		`{"queue":"default","args":[],"retry":25,"retry_count":24,"failed_at":1.5}`,
		`{"queue":"default","args":[],"retry_for":1,"failed_at":1.5,"retry_count":3}`,
		`{"queue":"default","args":[],"retry_queue":"low"}`,
		"{\"queue\":\"default\",\"args\":[],\"a\":\"\xff\"}",
	} {
		d := decide(t, payload, func(f *Failure) {
			f.Err = fmt.Errorf("charge: %w", troupe.Park(90*time.Second, boom))
			f.Options.RetryIn = func(int, error, *troupe.Payload) troupe.Delay { t.Error("RetryIn was asked"); return troupe.KillDelay }
			f.Options.Exhausted = func(*troupe.Payload, error) bool { t.Error("Exhausted was asked"); return true }
		})
		want := Decision{Outcome: Park, Reason: becauseParked, RetryCount: notCounted, Score: scores.Of(now) + 90, Wait: 90}
		if fmt.Sprintf("%+v", d) != fmt.Sprintf("%+v", want) {
			t.Errorf("%q: %+v", payload, d)
		}
	}
}

// What leaves the schedule set goes to the queue that the job names.
func TestAParkedJobComesBackToTheQueueItWasFetchedFrom(t *testing.T) {
	for payload, want := range map[string]string{
		`{"class":"A","queue":"low","args":[]}`: `{"class":"A","queue":"default","args":[]}`,
		`{"class":"A","args":[]}`:               `{"class":"A","args":[],"queue":"default"}`,
		`{"class":"A","queue":7}`:               `{"class":"A","queue":"default","args":[]}`,
		"{\"queue\":\"low\",\"a\":\"\xff\"}":    "", // cannot be written back
	} {
		d := decide(t, payload, func(f *Failure) { f.Err = troupe.Park(0, nil) })
		if d.Outcome != Park || string(d.Payload) != want {
			t.Errorf("%q: %v with %s, want %s", payload, d.Outcome, d.Payload, want)
		}
	}
}

func TestHowLongAParkIs(t *testing.T) {
	for d, want := range map[time.Duration]float64{
		-time.Hour: 0, 0: 0, time.Millisecond: 0.001, time.Hour: 3600, math.MaxInt64: 9223372036.854775807,
	} {
		got := decide(t, `{"queue":"default"}`, func(f *Failure) { f.Err = &troupe.OutcomeError{Park: true, Delay: d} })
		if wait := got.Score - scores.Of(now); math.Abs(wait-want) > 1e-6 {
			t.Errorf("%s: due in %v s, want %v", d, wait, want)
		}
	}
}

func TestWhatIsAPark(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"success":              {nil, false},
		"an error":             {boom, false},
		"a park":               {troupe.Park(time.Second, nil), true},
		"wrapped":              {fmt.Errorf("limit: %w", troupe.Park(0, boom)), true},
		"a retry":              {troupe.RetryIn(time.Second, nil), false},
		"a kill of a park":     {troupe.Kill(troupe.Park(time.Second, nil)), false},
		"a panic with it":      {&troupe.PanicError{Value: troupe.Park(time.Second, nil)}, false},
		"an error that panics": {panicky{}, false},
	} {
		if got := job.AskedBy(tt.err).Park; got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
