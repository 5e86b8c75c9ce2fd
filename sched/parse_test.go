package sched

import (
	"strings"
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

// An error names the field, what it says and what it may say.
func TestRefusals(t *testing.T) {
	for line, want := range map[string]string{
		"":                                      `cron line "": an empty line, expected five fields or a name such as @daily`,
		"@reboot":                               `cron line "@reboot": name @reboot: expected @hourly, @daily, @midnight, @noon, @weekly, @monthly, @yearly or @every`,
		"61 * * * *":                            `cron line "61 * * * *": minute "61": expected 0 to 59`,
		"* 25 * * *":                            `hour "25": expected 0 to 24`,
		"* * 0 * *":                             `day of the month "0": expected 1 to 31, -31 to -1 from its end, or L, its last day`,
		"* * * 13 *":                            `month "13": expected 1 to 12, or jan to dec`,
		"* * * * 8":                             `weekday "8": expected 0 to 7, or sun to sat, with #1 to #5, #-1 to #-5 or %2+1 behind it`,
		"*/0 * * * *":                           `minute "*/0": expected a step of 1 to 99 behind /`,
		"0 4 ? * *":                             `day of the month "?": expected 1 to 31, -31 to -1 from its end, or L, its last day; ? is Quartz's, a field that says nothing is *`,
		"0 4 15W * *":                           `W is Quartz's, the weekday next to a day cannot be said`,
		"H 4 * * *":                             `minute "H": expected 0 to 59; H is Jenkins's, write the number itself`,
		"10~20 4 * * *":                         `minute "10~20": expected 0 to 59; ~ is a random number, write the number itself`,
		"1,,2 * * * *":                          `minute "": expected 0 to 59`,
		"0 4 * *":                               `4 fields: expected minute, hour, day of the month, month and weekday, `,
		"0 0 4 * * * 2027":                      `7 fields: expected`,
		"0 4 1 1 * 2027":                        `weekday "2027": expected`,
		"0 0 30 2 *":                            `day of the month "30": expected a day that one of the months has`,
		"0 0 30 2 mon":                          `day of the month "30": expected a day that one of the months has`,
		"0 0 -30 2 *":                           `it never comes: days of the month -30, months 2, weekdays *`,
		"0 4 * * * Berlin":                      `zone "Berlin": expected a name of the IANA database such as Europe/Berlin (Rails has names of its own), or an offset from -11:45 to +11:45`,
		"0 4 * * * Pacific Time (US & Canada)":  `zone "Pacific Time (US & Canada)": expected a name of the IANA database`,
		"0 4 * * * +14:00":                      `zone "+14:00": expected`,
		"0 4 * * * Local":                       `zone "Local": expected`,
		"every weekday at 9:00":                 `a text: expected a cron line, which this command prints if there is one: ruby -rfugit -e 'puts Fugit.parse(ARGV[0]).to_cron_s' "every weekday at 9:00"`,
		"every 5M":                              `a text: expected a cron line`,
		"@every 5s UTC":                         `interval "@every 5s" with zone UTC: an interval has no zone; expected "@every 5s", or the line "*/5 * * * * * UTC"`,
		"every 90 minutes  Europe/Berlin":       `interval "every 90 minutes" with zone Europe/Berlin: an interval has no zone; expected "every 90 minutes"`,
		"every weekday UTC":                     `a text: expected a cron line`,
		"every UTC":                             `a text: expected a cron line`,
		"every 5s Berlin":                       `a text: expected a cron line`,
		"every 0 minutes":                       `interval "0 minutes": expected whole seconds, from 1 second to 366 days`,
		"every 500ms":                           `interval "500ms": expected`,
		"every 9000h":                           `interval "9000h": expected`,
		strings.Repeat("1,", 500) + "1 * * * *": `a line of 1009 bytes, expected at most 1000`,
	} {
		_, err := Parse(line, time.UTC)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

func TestLocal(t *testing.T) {
	for tz, want := range map[string]string{"Europe/Berlin": "Europe/Berlin", ":/usr/share/zoneinfo/Asia/Tokyo": "Asia/Tokyo", "": "UTC", "UTC": "UTC", "CET-1CEST": time.Local.String()} {
		t.Setenv("TZ", tz)
		if got := Local().String(); got != want {
			t.Errorf("TZ=%s: %s, want %s", tz, got, want)
		}
	}
}
