package config

import (
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

// What may be meant for a known key is always a fault. What resembles none is the
// application's own, whatever the file is called.
func TestUnknownKeys(t *testing.T) {
	tests := map[string]string{ // to the key that is suggested, "" for none
		"concurency": "concurrency", "Concurrency": "concurrency", "cocnurrency": "concurrency",
		"queue": "queues", "quees": "queues", "label": "labels", "lables": "labels", "tga": "tag", "tags": "tag",
		"capsule": "capsules", "time_out": "timeout", "timeuot": "timeout", "verbos": "verbose", "envirment": "environment",
		"max-retries": "max_retries", "maxRetries": "max_retries", "max_retry": "max_retries", "MAX_RETRIES": "max_retries",
		"dead_max": "dead_max_jobs", "dead_timeout": "dead_timeout_in_seconds", "poll_interval": "poll_interval_average",
		"max_iteration": "max_iteration_runtime", "loglevel": "log_level", "handlres": "handlers", "metric": "metrics",
		"worker_key": "workers_key", "leases": "lease", "redis_": "redis", "stratgy": "strategy", "limit": "limits", "qlimit": "limits",

		"retry_interval": "", "web_theme": "", "newrelic": "", "slack_channel": "", "threads": "",
		"mail": "", "max": "", "dead": "", "host": "", "workers": "", "sentry_dsn": "", "cache_ttl": "",
	}
	for key, want := range tests {
		for _, where := range []struct{ file, text string }{
			{"config/sidekiq.yml", key + ": 5\n"},
			{"jobs.yml", ":concurrency: 3\n" + key + ": 5\n"},
			{"jobs.yml", ":" + key + ": 5\n"},
			{"sidekiq.yml", "production:\n  " + key + ": 5\n"},
			{"sidekiq.yml", "staging:\n  concurrency: 1\n  " + key + ": 5\n"},
			{"sidekiq.yml", "capsules:\n  a:\n    " + key + ": 5\n"},
			{"troupe.yml", key + ": 5\n"},
			{"troupe.yml", "production:\n  " + key + ": 5\n"},
		} {
			if strings.HasPrefix(where.text, "capsules") && want != "concurrency" && want != "queues" && want != "" {
				continue // no keys of a capsule
			}
			f, err := Parse(where.file, []byte(where.text), "production")
			switch {
			case want == "":
				if err != nil || len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0].Field, key) {
					t.Errorf("%s, %q: %v, warnings %v", where.file, where.text, err, f.Warnings)
				}
			case err == nil:
				t.Errorf("%s, %q: accepted, warnings %v", where.file, where.text, f.Warnings)
			case !strings.HasSuffix(err.Error(), "no known key, expected "+want):
				t.Errorf("%s, %q: %v", where.file, where.text, err)
			}
		}
	}
}

// One text is judged alike under each name of a file.
func TestTheNameOfTheFileDecidesNothing(t *testing.T) {
	for text, want := range map[string]string{
		"concurrency: 10\nretry: 1\nqueues: [high, default]\n": "retry is ignored: it is an option of a job",
		"x-queues: &q [a, b]\nqueues: *q\n":                    "",
		"x-base: &base\n  concurrency: 5\n  frob: 1\n":         "",
		"production:\n  x-q: &q [a]\n  queues: *q\n":           "",
		"dynamic: true\n": "it means to take from every queue that Redis knows",
	} {
		for _, name := range []string{"troupe.yml", "sidekiq.yml", "my-sidekiq.yml", "jobs.yml"} {
			f, err := Parse(name, []byte(text), "production")
			warned := ""
			for _, w := range f.Warnings {
				warned += w.Error()
			}
			if err != nil || (warned == "") != (want == "") || !strings.Contains(warned, want) {
				t.Errorf("%s, %q: %v, warnings %q", name, text, err, warned)
			}
		}
	}
}

// Ruby refuses to start with concurrency: or timeout: that say nothing.
func TestNullNumbers(t *testing.T) {
	for _, text := range []string{":concurrency:\n", "timeout: ~\n", "production:\n  concurrency: null\n"} {
		if _, err := Parse("sidekiq.yml", []byte(text), "production"); err == nil || !strings.Contains(err.Error(), "expected a value, or the key left out") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A handler is troupe's own thing, in whosever file it stands.
func TestUnknownKeysOfHandlers(t *testing.T) {
	for _, text := range []string{
		"handlers: {A: {builtin: noop, frobnicate: 5}}\n",
		"handlers: {A: {http: {url: \"https://h/\", frobnicate: 5}}}\n",
		"strategy: {one_for_one: {frobnicate: 5}}\n",
		"redis: {url: \"redis://h\", frobnicate: 5}\n",
	} {
		_, err := Parse("sidekiq.yml", []byte(text), "")
		harness.ErrorHas(t, text, err, "frobnicate is no known key")
	}
}
