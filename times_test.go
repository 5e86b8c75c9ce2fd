package troupe

import (
	"encoding/json"
	"regexp"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe/internal/wirejson"
)

// stampText is the text that SetTime writes.
func stampText(form Timestamps, t time.Time) []byte {
	var p Payload
	p.SetTime("at", t, form)
	text, _ := p.Get("at")
	return text
}

func TestTimestampsFormat(t *testing.T) {
	for _, tt := range []struct {
		t         time.Time
		float, ms string
	}{
		{time.Unix(1795224881, 153480500), "1795224881.1534805", "1795224881153"},
		{time.Unix(1795224881, 153557000), "1795224881.153557", "1795224881153"},
		{time.Unix(1795225244, 0), "1795225244.0", "1795225244000"}, // whole seconds keep a fraction
		{time.Unix(1795225244, 5e8), "1795225244.5", "1795225244500"},
		{time.Unix(0, 0), "0.0", "0"},
		{time.Unix(946684800, 1), "946684800.0", "946684800000"}, // nine digits: eight decimals would be left
		{time.Unix(946684800, 123456789), "946684800.1234568", "946684800123"},
		{time.Unix(946684800, 999999999), "946684801.0", "946684800999"},
	} {
		if got := string(stampText(TimestampsFloat, tt.t)); got != tt.float {
			t.Errorf("%v: float %s, want %s", tt.t.UTC(), got, tt.float)
		}
		if got := string(stampText(TimestampsMillis, tt.t)); got != tt.ms {
			t.Errorf("%v: ms %s, want %s", tt.t.UTC(), got, tt.ms)
		}
	}
}

var floatForm = regexp.MustCompile(`^\d+\.\d{1,7}$`)

func TestTimestampsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		when := time.Unix(rapid.Int64Range(1, 99999999998).Draw(t, "s"), rapid.Int64Range(0, 999999999).Draw(t, "ns"))
		text := stampText(TimestampsFloat, when)
		if !floatForm.Match(text) {
			t.Fatalf("%s has another form", text)
		}
		// Ruby parses the number and writes it again: same bytes.
		f, _ := strconv.ParseFloat(string(text), 64)
		if again, _ := wirejson.Encode(f, 0); string(again) != string(text) {
			t.Fatalf("%s becomes %s when written again", text, again)
		}
		got, ok := wirejson.ParseTime(text)
		if diff := got.Sub(when).Abs(); !ok || diff > 20*time.Microsecond {
			t.Fatalf("%v reads back as %v", when.UTC(), got)
		}
		if when.Unix() >= 1e9 {
			if diff := got.Sub(when).Abs(); diff > 250*time.Nanosecond && when.Unix() < 1<<31 {
				t.Fatalf("%v reads back %v off", when.UTC(), diff)
			}
		}
		if when.UnixMilli() >= 1e11 {
			if got, ok := wirejson.ParseTime(stampText(TimestampsMillis, when)); !ok || !got.Equal(when.Truncate(time.Millisecond)) {
				t.Fatalf("ms: %v reads back as %v", when.UTC(), got)
			}
		}
	})
}

func TestPayloadTime(t *testing.T) {
	const half = "2026-11-21T01:34:41.5Z"
	for text, want := range map[string]string{
		`1795224881.5`:                  half, // Sidekiq 6 and 7
		`1795224881500`:                 half, // Sidekiq 8
		`1795224881500.0`:               half,
		`1795224881`:                    "2026-11-21T01:34:41Z", // integer seconds of a careless writer
		`1.7952248815e9`:                half,
		`1.7952248815e12`:               half,
		`1795224881.1534805`:            "2026-11-21T01:34:41.1534805Z",
		`1795224881500.25`:              "2026-11-21T01:34:41.50025Z",
		`99999999999`:                   "5138-11-16T09:46:39Z",
		`100000000000`:                  "1973-03-03T09:46:40Z",
		`0`:                             "1970-01-01T00:00:00Z",
		`-1.5`:                          "1969-12-31T23:59:58.5Z",
		`"1795224881.5"`:                half,
		`" 1795224881500 "`:             half,
		`"2026-11-21T01:34:41.5Z"`:      half,
		`"2026-11-21T02:34:41.5+01:00"`: half,
		`"2026-11-21T02:34:41.5+0100"`:  half,
		`"2026-11-21T01:34:41.5"`:       half,
		`"2026-11-21 01:34:41.5 UTC"`:   half,
		`"2026-11-21 02:34:41.5 +0100"`: half,
		`"2026-11-21 01:34:41.5"`:       half,
		`"2026-11-21"`:                  "2026-11-21T00:00:00Z",
		`"\u0031795224881.5"`:           half,
	} {
		got, ok := mustParse(t, `{"at":`+text+`}`).Time("at")
		if !ok || got.Format(time.RFC3339Nano) != want {
			t.Errorf("%s: got %v, %v, want %s", text, got.Format(time.RFC3339Nano), ok, want)
		}
	}
	for _, text := range []string{
		`null`, `true`, `[]`, `{}`, `""`, `"soon"`, `"NaN"`, `"0x10"`, `1e300`, `-1e300`, `9e99`, `"1e999"`,
		`123456789012345678901234567890`, `999999999999999999`, `-1e12`, `"9999-12-31T23:59:59-01:00"`, `"0000-01-01"`, `"2026-13-01"`, `"2026-11-21 01:34:41 XYZ"`,
	} {
		if got, ok := mustParse(t, `{"at":`+text+`}`).Time("at"); ok {
			t.Errorf("%s: got %v", text, got)
		}
	}
	if _, ok := mustParse(t, `{}`).Time("at"); ok {
		t.Error("an absent field is a time")
	}
}

func TestSetTimeIsJSON(t *testing.T) {
	var p Payload
	p.SetTime("a", time.Unix(1795225244, 0), TimestampsFloat)
	p.SetTime("b", time.Unix(1795225244, 0), TimestampsMillis)
	if got := string(p.Bytes()); got != `{"a":1795225244.0,"b":1795225244000}` || !json.Valid(p.Bytes()) {
		t.Errorf("got %s", got)
	}
}
