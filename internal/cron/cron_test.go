package cron

import (
	"testing"
	"time"
)

func TestEvery(t *testing.T) {
	berlin, err := Zone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		text, want string
		interval   bool
	}{
		{"every 15m", "*/15 * * * * Europe/Berlin", false},
		{"every 15 minutes", "*/15 * * * * Europe/Berlin", false},
		{"@every 15m", "*/15 * * * * Europe/Berlin", false},
		{"every 20s", "*/20 * * * * * Europe/Berlin", false},
		{"every second", "* * * * * * Europe/Berlin", false},
		{"every 60 seconds", "* * * * * Europe/Berlin", false},
		{"every minute", "* * * * * Europe/Berlin", false},
		{"every hour", "0 * * * * Europe/Berlin", false},
		{"every 2h", "0 */2 * * * Europe/Berlin", false},
		{"every 120 minutes", "0 */2 * * * Europe/Berlin", false},
		{"Every day", "0 0 * * * Europe/Berlin", false},
		{"every 90s", "@every 1m30s", true},
		{"every 90 minutes", "@every 1h30m0s", true},
		{"every 1h30m", "@every 1h30m0s", true},
		{"every 7m", "@every 7m0s", true},
		{"every 48h", "@every 48h0m0s", true},
		{"0 4 * * *", "0 4 * * * Europe/Berlin", false},
		{" 0  4 *\t* * UTC ", "0 4 * * * UTC", false},
		{"@daily", "0 0 * * * Europe/Berlin", false},
		{"@noon +02:00", "0 12 * * * +02:00", false},
	} {
		s, err := Parse(tt.text, berlin)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if s.String() != tt.want || s.Interval() != tt.interval {
			t.Errorf("%s: %s, interval %t", tt.text, s, s.Interval())
		}
	}
	for text, want := range map[string]time.Time{
		"every 90s":  time.Unix(90*20_000_000, 0),
		"every 90m":  time.Unix(5400*333_334, 0),
		"every 7h":   time.Unix(25200*71_429, 0),
		"every 1h7s": time.Unix(3607*499_030, 0),
	} {
		s, err := Parse(text, berlin)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Next(want.Add(-1)); !got.Equal(want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		if got := s.Prev(want); !got.Equal(want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
