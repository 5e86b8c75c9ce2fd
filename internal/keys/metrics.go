package keys

import (
	"strconv"
	"time"
)

// The keys of Sidekiq's job metrics hold the UTC minute of the flush. Where 7
// and 8 do not pad a number, neither may we: their pages ask for exact keys.

// Counters7 is the hash of a minute in Sidekiq 7.
func Counters7(t time.Time) string {
	t = t.UTC()
	return "j|" + t.Format("20060102") + "|" + strconv.Itoa(t.Hour()) + ":" + strconv.Itoa(t.Minute())
}

// Histogram7 is the bit field of the run times of a class in a minute in Sidekiq 7.
func Histogram7(class string, t time.Time) string {
	t = t.UTC()
	return class + "-" + t.Format("02-15:") + strconv.Itoa(t.Minute())
}

// Counters8 is the hash of a minute in Sidekiq 8.
func Counters8(t time.Time) string {
	t = t.UTC()
	return "j|" + t.Format("060102") + "|" + strconv.Itoa(t.Hour()) + t.Format(":04")
}

// TenMinutes8 is the hash of ten minutes in Sidekiq 8.
func TenMinutes8(t time.Time) string {
	minute := Counters8(t)
	return minute[:len(minute)-1]
}

// Histogram8 is the bit field of the run times of a class in a minute in Sidekiq 8.
func Histogram8(class string, t time.Time) string {
	t = t.UTC()
	return "h|" + class + "-" + strconv.Itoa(t.Day()) + "-" + strconv.Itoa(t.Hour()) + ":" + strconv.Itoa(t.Minute())
}

// Marks is the hash of the deploys of a UTC day: minute -> label.
func Marks(t time.Time) string { return t.UTC().Format("20060102") + "-marks" }

// Measured remembers the last batch of job metrics of a process.
func Measured(identity string) string { return "troupe:measured:" + identity }
