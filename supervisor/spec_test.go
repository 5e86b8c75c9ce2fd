package supervisor

import (
	"math"
	"testing"
	"time"
)

func TestValidateNamesFieldValueAndExpectation(t *testing.T) {
	for _, tc := range []struct {
		spec Spec
		want string // "" for none
	}{
		{Spec{}, ""},
		{Spec{Intensity: -1}, ""},
		{Spec{Backoff: Backoff{Min: time.Second, Max: time.Second, Jitter: 1}}, ""},
		{Spec{Backoff: Backoff{Min: time.Second}}, ""},
		{Spec{Intensity: -2}, "Intensity is -2, expected a number of restarts, 0 for 20, or -1 for none"},
		{Spec{Period: -time.Second}, "Period is -1s, expected a positive duration, or 0 for 1m0s"},
		{Spec{Backoff: Backoff{Min: -1}}, ""},
		{Spec{Backoff: Backoff{Max: -1}}, "Backoff.Max is -1ns, expected a positive duration, or 0 for 1h"},
		{Spec{Backoff: Backoff{Min: 2 * time.Second, Max: time.Second}}, "Backoff.Max is 1s, expected at least Backoff.Min (2s)"},
		{Spec{Backoff: Backoff{Max: time.Second}}, "Backoff.Min is 0s, expected a positive duration beside Backoff.Max (1s)"},
		{Spec{Backoff: Backoff{Jitter: 1.5}}, "Backoff.Jitter is 1.5, expected a share from 0 to 1"},
		{Spec{Backoff: Backoff{Jitter: math.NaN()}}, "Backoff.Jitter is NaN, expected a share from 0 to 1"},
	} {
		err := OneForOne(tc.spec).Validate()
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%+v: %v", tc.spec, err)
		case tc.want != "" && (err == nil || err.Error() != "supervisor: "+tc.want):
			t.Errorf("%+v:\n got %v\nwant %s", tc.spec, err, tc.want)
		}
	}
}

func TestWhatASpecMeans(t *testing.T) {
	for _, tc := range []struct {
		spec Spec
		want string
	}{
		{Spec{}, Default().String()},
		{Spec{}, "one_for_one, 20 restarts in 1m0s, backoff 100ms..5s, jitter 0.2"},
		{Spec{Intensity: 3}, "one_for_one, 3 restarts in 1m0s, backoff 100ms..5s, jitter 0.2"},
		{Spec{Intensity: -1, Period: time.Second}, "one_for_one, 0 restarts in 1s, backoff 100ms..5s, jitter 0.2"},
		{Spec{Backoff: Backoff{Min: -1}}, "one_for_one, 20 restarts in 1m0s"},
		{Spec{Backoff: Backoff{Min: time.Second}}, "one_for_one, 20 restarts in 1m0s, backoff 1s..1h0m0s"},
		{
			Spec{Replace: true, Backoff: Backoff{Min: time.Second, Max: time.Minute, Jitter: 0.2}},
			"one_for_one, 20 restarts in 1m0s, backoff 1s..1m0s, jitter 0.2, replace",
		},
	} {
		if got := OneForOne(tc.spec).String(); got != tc.want {
			t.Errorf("%+v is %q, want %q", tc.spec, got, tc.want)
		}
	}
}
