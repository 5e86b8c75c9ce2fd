package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/harness"
)

const limitsFile = `
queues: [mail, "low:eu", a]
limits:
  mail: 5
  low:eu: "2"
  off:
  account: {at_once: 1, by: 0.account_id, classes: [Charge]}
  api: {rate: 10/1m, burst: 3, queues: a, classes: [Mail, Charge]}
  "Reports::Daily": {at_once: 3, throttled: true}
  rest: {rate: 7, queues: [a, nobody]}
  hooks: {by: 0.host, breaker: {failures: 5, rest: 30s}, queues: low:eu}
  bank: {at_once: 2, breaker: {}, classes: Mail}
handlers:
  Charge: {builtin: noop}
  Mail: {builtin: noop, limits: ["Reports::Daily", mail]}
  "*": {builtin: noop, limits: account}
`

// What a file says about limits is what the daemon keeps and what the summary tells.
func TestLimitsAreReadAndBuilt(t *testing.T) {
	s := harness.Must(loaded(t, limitsFile))(t)
	c := harness.Must(s.Daemon(nil, zerolog.Nop(), nil))(t)
	mail, eu := troupe.Limit{Name: "mail", AtOnce: 5}, troupe.Limit{Name: "low_eu", AtOnce: 2}
	account := troupe.Limit{Name: "account", AtOnce: 1, By: "0.account_id"}
	api := troupe.Limit{Name: "api", Rate: 10, Per: time.Minute, Burst: 3}
	daily := troupe.Limit{Name: "Reports::Daily", AtOnce: 3, Throttled: true}
	rest := troupe.Limit{Name: "rest", Rate: 7, Per: time.Second}
	hooks := troupe.Limit{Name: "hooks", By: "0.host", Breaker: &troupe.Breaker{Failures: 5, Rest: 30 * time.Second}}
	bank := troupe.Limit{Name: "bank", AtOnce: 2, Breaker: &troupe.Breaker{}}
	if diff := cmp.Diff(map[string][]troupe.Limit{"mail": {mail}, "low:eu": {eu, hooks}, "a": {api, rest}, "nobody": {rest}}, c.QueueLimits); diff != "" {
		t.Errorf("of queues, want - got +:\n%s", diff)
	}
	for class, want := range map[string][]troupe.Limit{"Charge": {account, api}, "Mail": {mail, api, daily, bank}, "Else": {account}} {
		e, _ := c.Registry.Lookup(class)
		if diff := cmp.Diff(want, e.Options.Limits); diff != "" {
			t.Errorf("of %s, want - got +:\n%s", class, diff)
		}
	}
	var b strings.Builder
	harness.OK(t, s.Summary(&b))
	_, text, _ := strings.Cut(b.String(), "\nlimits:\n")
	text, _, _ = strings.Cut(text, "\n\n")
	harness.Equal(t, "the summary", text, `  mail            5 at once, class Mail, queue mail; as in sidekiq-limit_fetch, but jobs that Ruby runs do not count
  low:eu          2 at once, queue low:eu; as in sidekiq-limit_fetch, but jobs that Ruby runs do not count
  account         1 at once, by 0.account_id, class Charge, *
  api             10 in 1m0s, 3 together after a pause, class Mail, Charge, queue a
  Reports::Daily  3 at once, together with sidekiq-throttled, class Mail
  rest            7 in 1s, queue a, nobody (no capsule here takes from nobody)
  hooks           any number, by 0.host, rests for 30s after 5 failures in a row, queue low:eu
  bank            2 at once, rests for 1m0s after 0 failures in a row, class Mail`)
}

func TestLimitFaults(t *testing.T) {
	const handlers = "handlers: {A: {builtin: noop}, B: {builtin: noop}}\n"
	of := func(limit string) string { return handlers + "limits: {x: " + limit + "}\n" }
	for text, want := range map[string]string{
		handlers + "limits: 5":                                              `limits is "5", expected ` + wantLimits,
		handlers + "limits: [mail]":                                         `limits is a list, expected ` + wantLimits,
		of("0"):                                                             `troupe.yml:2: limits.x is "0", expected ` + wantLimit,
		of("2.5"):                                                           `limits.x is "2.5", expected ` + wantLimit,
		of("10/1m"):                                                         `limits.x is "10/1m", expected ` + wantLimit,
		of("[5]"):                                                           `limits.x is a list, expected ` + wantLimit,
		of("{queues: [a]}"):                                                 `limits.x is without a kind, expected at_once, rate or breaker`,
		of("{at_once: 1, rate: 2, queues: [a]}"):                            `limits.x is of two kinds (at_once, rate), expected one of them`,
		of("{at_once: 0, queues: [a]}"):                                     `limits.x.at_once is "0", expected a whole number from 1`,
		of("{at_onec: 1, queues: [a]}"):                                     `limits.x.at_onec is no known key, expected at_once`,
		of("{rate: 0, queues: [a]}"):                                        `limits.x.rate is "0", expected a number of jobs`,
		of("{rate: 1/0, queues: [a]}"):                                      `limits.x.rate is "1/0", expected a number of jobs`,
		of("{rate: ten/s, queues: [a]}"):                                    `limits.x.rate is "ten/s", expected a number of jobs`,
		of("{rate: 1/fortnight, queues: [a]}"):                              `limits.x.rate is "1/fortnight", expected a number of jobs`,
		of("{rate: 1/1us, queues: [a]}"):                                    `limits.x.rate is "1/1us", expected a number of jobs`,
		of("{rate: 1/, queues: [a]}"):                                       `limits.x.rate is "1/", expected a number of jobs`,
		of("{rate: [1], queues: [a]}"):                                      `limits.x.rate is a list, expected a number of jobs`,
		of("{rate: 1, burst: 0, queues: [a]}"):                              `limits.x.burst is "0", expected a whole number from 1`,
		of("{at_once: 1, burst: 2, queues: [a]}"):                           `limits.x.burst is 2, expected it beside rate only`,
		of("{at_once: 1, by: [0], queues: [a]}"):                            `limits.x.by is a list, expected a place of an argument`,
		of("{at_once: 1, by: '', queues: [a]}"):                             `limits.x.by is "", expected a place of an argument`,
		of("{rate: 1, throttled: true, queues: [a]}"):                       `limits.x.throttled is true, expected it beside at_once only`,
		of("{at_once: 1, queues: [a, a]}"):                                  `limits.x.queues is "a" twice, expected it once`,
		of("{at_once: 1, classes: ['']}"):                                   `limits.x.classes is "", expected the name of a class`,
		of("{breaker: {failures: -1}, queues: [a]}"):                        `limits.x.breaker.failures is "-1", expected`,
		of("{breaker: {rest: 9000h}, queues: [a]}"):                         `limits.x.breaker.rest is "9000h", expected a time of at most a year`,
		of("{breaker: 5, queues: [a]}"):                                     `limits.x.breaker is "5", expected a map like {failures: 5, rest: 1m}`,
		of("{at_once: 1, throttled: yes, breaker: {}, queues: [a]}"):        `limits.x.throttled is true, expected it without breaker`,
		of("{at_once: 1, classes: [A, Gone]}"):                              `troupe.yml:2: limits.x.classes is "Gone", expected a class that has a handler under handlers:`,
		of("{at_once: 1}"):                                                  `limits.x is of no job, expected queues or classes in it, or a handler with limits: [x]`,
		handlers + "limits: {'a b': {at_once: 1, queues: [a]}}":             `limits.a b is named "a b", expected ` + wantLimitName,
		handlers + "limits: {'a:b': {at_once: 1, queues: [a]}}":             `expected ` + wantLimitName,
		handlers + "limits: {'a:b': 1, a_b: 2}":                             `limits.a_b is named "a_b", expected a name that limits.a:b has not`,
		handlers + "limits:\n  a: 1\n  a: 2":                                `a is given twice, expected it once`,
		of("1") + "fetch: basic\n":                                          `limits.x is given beside fetch: basic of the capsule default, expected fetch: reliable`,
		of("1") + "capsules: {php: {wire: laravel, queues: [b]}}":           `limits.x is given beside the capsule php with wire: laravel, expected no limits in its daemon`,
		of("{at_once: 1, throttled: yes, queues: [a]}") + cluster:           `limits.x.throttled is true, expected false on a Redis Cluster`,
		"handlers: {A: {builtin: noop, limits: [x]}}":                       `handlers.A.limits is "x", expected the name of a limit under limits:`,
		"limits: {x: 1, y: 2}\nhandlers: {A: {builtin: noop, limits: [z]}}": `handlers.A.limits is "z", expected one of x, y`,
		"limits: {x: 1}\nhandlers: {A: {builtin: noop, limits: [x, x]}}":    `handlers.A.limits is "x" twice, expected it once`,
		"limits: {x: {at_once: 1, classes: [A]}}\nhandlers: {A: {builtin: noop, limits: [x]}}":          `expected it here or in limits.x.classes, not twice`,
		handlers + "shards: {s: {redis: 'redis://h:1', capsules: {k: {fetch: basic}}}}\nlimits: {x: 1}": `limits.x is given beside fetch: basic of the capsule k`,
	} {
		_, err := loaded(t, text)
		harness.ErrorHas(t, text, err, want)
	}
}

const cluster = "redis: 'redis+cluster://h:7000'\n"

// The daemon that runs takes other numbers of its limits; their kinds, names, classes and queues take a restart.
func TestNumbersOfLimitsAreReloaded(t *testing.T) {
	const file = "handlers: {A: {builtin: noop}}\nlimits:\n  a: {at_once: 5, queues: [q], breaker: {failures: 3}}\n  b: {rate: 10/s, classes: [A]}\n  c: 4\n"
	s := harness.Must(loaded(t, file))(t)
	for _, c := range []struct{ old, new, numbers, ignored string }{
		{"at_once: 5", "at_once: 9", "a 9 breaker 3 60, b 1 0.1, c 4", ""},
		{"failures: 3", "failures: 4", "a 5 breaker 4 60, b 1 0.1, c 4", ""},
		{"10/s", "20/m", "a 5 breaker 3 60, b 1 3, c 4", ""},
		{"10/s", "10/s, burst: 7", "a 5 breaker 3 60, b 7 0.1, c 4", ""},
		{"c: 4", "c: 6", "a 5 breaker 3 60, b 1 0.1, c 6", ""},
		{"c: 4", "d: 4", "a 5 breaker 3 60, b 1 0.1", "d 4 at once"},
		{"at_once: 5", "rate: 5", "b 1 0.1, c 4", "a 5 in 1s"},
		{"at_once: 5", "by: id, at_once: 5", "b 1 0.1, c 4", "a 5 at once, by id"},
		{"[q]", "[q, r]", "a 5 breaker 3 60, b 1 0.1, c 4", "a 5 at once"},
		{", breaker: {failures: 3}", "", "b 1 0.1, c 4", "a 5 at once, queue q"},
	} {
		_, numbers, ignored, err := s.Reload(harness.Must(loaded(t, strings.Replace(file, c.old, c.new, 1)))(t), "")
		harness.OK(t, err)
		var got []string
		for _, l := range numbers {
			got = append(got, l.Name+" "+job.LimitText(l))
		}
		if strings.Join(got, ", ") != c.numbers || !strings.HasPrefix(strings.Join(ignored, "; "), c.ignored) || (c.ignored == "") != (ignored == nil) {
			t.Errorf("%q, ignored %q, expected %+v", got, ignored, c)
		}
	}
}
