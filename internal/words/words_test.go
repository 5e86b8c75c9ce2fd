package words

import (
	"fmt"
	"testing"
	"time"
)

func TestWords(t *testing.T) {
	one := 12.345
	for got, want := range map[string]string{
		Count(int64(1234567)): "1,234,567", Count(999): "999", Count(1000): "1,000", Count(uint64(123456)): "123,456", Count(-100): "-100", Count("12345678901234567890"): "12,345,678,901,234,567,890",
		Rate(&one): "12", Rate(0.25): "0.2", Rate((*float64)(nil)): "–", Rate(123456.0): "123,456",
		Span(0.25): "250ms", Span(3.0): "3s", Span(200 * time.Second): "3m 20s", Span(2 * time.Hour): "2h", Span(72 * time.Hour): "3d", Span(-5.0): "-5s",
		Brief(200 * time.Second): "3m", Brief(900 * time.Millisecond): "0s", Brief(-time.Hour): "0s", Brief(47 * time.Hour): "47h", Exact(0.02): "20ms", Exact(45): "45s",
		Few(-1): "0s", Few(85400): "85µs", Few(1234 * time.Microsecond): "1.2ms", Few(123456 * time.Microsecond): "120ms", Few(1234 * time.Millisecond): "1.2s", Few(125 * time.Second): "2m5s",
		At(time.Unix(1795225158, 5)): "2026-11-21T01:39:18Z", At(time.Time{}): "", Since(time.Now().Add(-200 * time.Second)): "3m", Since(time.Time{}): "",
		Plural(1, "job"): "1 job", Plural(2, "process"): "2 processes", Plural(0, "entry"): "0 entries", Plural(1, "entry"): "1 entry", Plural(int64(2103), "job"): "2,103 jobs",
		Size(1536): "1.5 KB", Size(5): "5 B", Size(300 << 20): "300 MB",
	} {
		if got != want {
			t.Errorf("got %q, expected %q", got, want)
		}
	}
}

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "0s", 59 * time.Second: "59s", time.Minute: "1m", 59*time.Minute + time.Second: "59m", 47 * time.Hour: "47h", 48 * time.Hour: "2d",
	} {
		if got := Brief(d); got != want {
			t.Errorf("%s: %q, expected %q", d, got, want)
		}
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]string{
		"10": "10 1s", "10/s": "10 1s", "100/1m": "100 1m0s", "5/90s": "5 1m30s", "3/m": "3 1m0s", "1/h": "1 1h0m0s", "2 / 90": "2 1m30s", "4/0.5": "4 500ms",
		"": "", "0": "", "-1/s": "", "1/": "", "/s": "", "1/-1s": "", "1/0": "", "a/s": "", "1/1m/2": "", "1.5/s": "", "3000000000": "",
	} {
		got := ""
		if n, per, err := ParseRate(text); err == nil {
			got = fmt.Sprint(n, " ", per)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
