package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupehq/troupe/internal/words"
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
	"backtrace":             "it is an option of a job",
	"retry":                 "it is an option of a job; see max_retries: for those that have retry: true",
	"logger":                "it is Ruby's; see log: and log_level:",
	"logged_job_attributes": "log lines have fixed fields",
	"error_handlers":        "they are Ruby code",
	"death_handlers":        "they are Ruby code",
	"lifecycle_events":      "they are Ruby code",
	"reloader":              "it is Ruby code",
	"backtrace_cleaner":     "it is Ruby code",
	"on_complex_arguments":  "arguments are always strict, as in Sidekiq 7",
	"redis_idle_timeout":    "set max_idle_time in the Redis URL",
	"schedule":              "it lists no periodic jobs",
	"scheduler":             "it lists no periodic jobs",
	"cron_schedule_file":    "it names no file",
	"enabled":               "it is an option of sidekiq-scheduler",
	"listened_queues_only":  "it is an option of sidekiq-scheduler; a periodic job goes to its queue, whoever works on that",
	"cron":                  "it lists no periodic jobs",
	"cron_poll_interval":    "a periodic job is pushed when its time comes",
	"dynamic":               "with sidekiq-limit_fetch it means to take from every queue that Redis knows, which nothing here does: name the queues under queues:",
	"process_limits":        "it is an option of a Ruby extension (sidekiq-limit_fetch)",
	"blocking":              "it is an option of a Ruby extension (sidekiq-limit_fetch)",
}

// processLimits tells how to get each limit of sidekiq-limit_fetch that holds within a process.
func (p *parse) processLimits(n *node, field string) {
	for _, e := range n.entries {
		if e.value.kind != null {
			p.warn(e.line, field+"."+e.key, fmt.Sprintf("it is an option of a Ruby extension (sidekiq-limit_fetch); take the queue out of queues: and give it a capsule of its own with that concurrency, "+
				"capsules: {%s: {concurrency: %s, queues: [%q]}}", limitName(e.key), clip(e.value.plain()), e.key))
		}
	}
}

func settingNames() []string { return slices.Sorted(maps.Keys(settings)) }

// ignored accepts the keys without effect; those for anchors, "strict", which Sidekiq works out
// from the queues itself, and periodic jobs without a word.
func (p *parse) ignored(e entry, field string) bool {
	if e.key == "strict" || strings.HasPrefix(e.key, "x-") || p.gemPeriodic(e, field) {
		return true
	}
	if e.key == "enabled" && e.value.kind == scalar && !p.bool(e.value, field) {
		p.schedulerOff = true
	}
	why, ok := foreign[e.key]
	if e.key == "process_limits" && e.value.kind == mapping {
		p.processLimits(e.value, field)
	} else if ok {
		p.warn(e.line, field, why)
	}
	return ok
}

// stray reports a key where Ruby code may keep keys of its own: that is a warning,
// unless a known key may be meant.
func (p *parse) stray(e entry, field string, known []string) {
	if words.Nearest(e.key, known) == "" {
		p.warn(e.line, field, "nothing here reads it; it may be your application's own")
		return
	}
	p.unknown(e.line, field, e.key, known)
}

// readers read the value of each key of a map.
type readers[T any] map[string]func(p *parse, out *T, n *node, field string)

func (r readers[T]) keys() []string { return slices.Sorted(maps.Keys(r)) }

// read reads the map n, or nothing when n is null; other hears of keys that have
// no reader. false: n is no map, which is reported with what is wanted.
func (r readers[T]) read(p *parse, out *T, n *node, field, want string, other func(e entry, at string, known []string)) bool {
	switch n.kind {
	case null:
		return true
	case mapping:
	default:
		p.bad(n, field, want)
		return false
	}
	for _, e := range n.entries {
		at := field + "." + e.key
		if read := r[e.key]; read != nil {
			read(p, out, e.value, at)
		} else {
			other(e, at, r.keys())
		}
	}
	return true
}

// alien reports a key that is none of known.
func (p *parse) alien(e entry, field string, known []string) { p.unknown(e.line, field, e.key, known) }

// unknown reports a key that is none of known.
func (p *parse) unknown(line int, field, key string, known []string) {
	want := strings.Join(known, ", ")
	if len(known) > 1 {
		want = "one of " + want
	}
	if near := words.Nearest(key, known); near != "" {
		want = near
	}
	p.fault(line, field, "no known key", want)
}
