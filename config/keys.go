package config

import (
	"maps"
	"slices"
	"strings"
)

// foreign are keys that files of Ruby programs have and that mean nothing here,
// with the reason that the warning gives.
var foreign = map[string]string{
	"require":               "it loads Ruby code; jobs run by the handlers named under handlers:",
	"pidfile":               "process managers know the process; Sidekiq itself dropped it in version 6",
	"logfile":               "logs go to stderr; Sidekiq itself dropped it in version 6",
	"daemon":                "the daemon stays in the foreground, as Sidekiq does since version 6",
	"profile":               "it is for Ruby's profiler",
	"namespace":             "keys have no prefix, as in Sidekiq 7; use a database number in the Redis URL",
	"max_iteration_runtime": "no handler iterates",
	"backtrace":             "it is an option of a job",
	"logger":                "it is Ruby's; see log: and log_level:",
	"error_handlers":        "they are Ruby code",
	"death_handlers":        "they are Ruby code",
	"lifecycle_events":      "they are Ruby code",
	"reloader":              "it is Ruby code",
	"on_complex_arguments":  "arguments are always strict, as in Sidekiq 7",
	"redis_idle_timeout":    "set max_idle_time in the Redis URL",
	"schedule":              "periodic jobs (sidekiq-cron, sidekiq-scheduler) are not run here",
	"scheduler":             "periodic jobs (sidekiq-scheduler) are not run here",
	"cron_poll_interval":    "periodic jobs (sidekiq-cron) are not run here",
	"dynamic":               "it is an option of a Ruby extension",
	"limits":                "it is an option of a Ruby extension (sidekiq-limit_fetch)",
	"process_limits":        "it is an option of a Ruby extension (sidekiq-limit_fetch)",
	"blocking":              "it is an option of a Ruby extension (sidekiq-limit_fetch)",
}

// ignored accepts the keys without effect; "strict", which Sidekiq works out
// from the queues itself, without a word.
func (p *parse) ignored(e entry, field string) bool {
	if e.key == "strict" {
		return true
	}
	why, ok := foreign[e.key]
	if ok {
		p.warn(e.line, field, why)
	}
	return ok
}

func settingNames() []string { return slices.Sorted(maps.Keys(settings)) }

// unknown reports a key that is none of known.
func (p *parse) unknown(line int, field, key string, known []string) {
	want := strings.Join(known, ", ")
	if len(known) > 1 {
		want = "one of " + want
	}
	if near := nearest(key, known); near != "" {
		want = near
	}
	p.fault(line, field, "no known key", want)
}

// nearest returns the name that differs least from word, "" if none is near.
func nearest(word string, names []string) string {
	best, least := "", max(2, len(word)/3)+1
	for _, name := range names {
		if d := distance(strings.ToLower(word), name); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is Levenshtein's: how many bytes to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
