package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/test/harness"
)

var byRetries = cmp.Comparer(func(a, b troupe.Retries) bool { return a == b })

// The same two jobs in each form that a file may have.
func TestPeriodicForms(t *testing.T) {
	want := []troupe.Periodic{
		{Name: "nightly", Cron: "0 4 * * * Europe/Berlin", Class: "Report", Args: []any{int64(1), map[string]any{"deep": true}}, Queue: "low"},
		{Name: "often", Cron: "every 15m", Class: "Poll"},
	}
	for name, text := range map[string]string{
		"troupe": `
periodic:
  nightly: {cron: "0 4 * * * Europe/Berlin", class: Report, args: [1, {deep: true}], queue: low}
  often: {cron: every 15m, class: Poll}
`,
		"a list": `
periodic:
- {name: nightly, cron: "0 4 * * * Europe/Berlin", class: Report, args: [1, {deep: true}], queue: low}
- {name: often, cron: every 15m, class: Poll}
`,
		"symbols": `
:schedule:
  nightly:
    :cron: "0 4 * * * Europe/Berlin"
    :class: Report
    :args:
      - 1
      - :deep: true
    :queue: :low
  often: {:cron: every 15m, :klass: Poll}
`,
		"sidekiq-scheduler": `
:scheduler:
  :enabled: true
  :schedule:
    nightly: {cron: ["0 4 * * * Europe/Berlin"], class: Report, args: [1, {deep: true}], queue: low, enabled: true}
    often: {cron: every 15m, class: Poll, rails_env: "staging, production"}
    never: {cron: every 15m, rails_env: [test]}
`,
		"sidekiq-cron": `
:cron:
- {name: nightly, cron: "0 4 * * * Europe/Berlin", klass: Report, args: [1, {deep: true}], queue: low, status: enabled, retry: true, symbolize_args: true}
- {name: often, cron: every 15m, class: Poll, source: schedule}
`,
		"a section": `
:schedule:
  other: {cron: "* * * * *", class: Other}
production:
  :schedule:
    nightly: {cron: "0 4 * * * Europe/Berlin", class: Report, args: [1, {deep: true}], queue: low}
    often: {cron: every 15m, class: Poll}
staging:
  :schedule:
    wrong: {every: 5m}
`,
	} {
		f, err := Parse("config/sidekiq.yml", []byte(text), "production")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := slices.Clone(want)
		for i := range want {
			want[i].SidekiqScheduler = strings.Contains(text, ":schedule:")
		}
		if diff := cmp.Diff(want, f.Periodic, byRetries); diff != "" {
			t.Errorf("%s, want - and got +:\n%s", name, diff)
		}
	}
}

func TestPeriodicKeys(t *testing.T) {
	f, err := Parse("troupe.yml", []byte(`
zone: Asia/Tokyo
periodic:
  a: {cron: "@daily", class: A, retry: false, missed: last, dst: once, status: disabled, description: of all, namespace: n, overlap: skip}
  b: {cron: "30 2 * * sun#-1", class: B, retry: 3, missed: all, missed_max: 7, date_as_argument: yes, args: one}
  c: {cron: "0 9 * * *", class: C, active_job: true, queue: q, queue_name_prefix: p, queue_name_delimiter: ., args: '[1, "x"]'}
`), "")
	harness.OK(t, err)
	want := []troupe.Periodic{
		{Name: "a", Cron: "@daily", Class: "A", Retries: troupe.Never(), Missed: troupe.MissedLast, Once: true, Disabled: true, Description: "of all", Namespace: "n", Overlap: troupe.OverlapSkip},
		{Name: "b", Cron: "30 2 * * sun#-1", Class: "B", Retries: troupe.Times(3), Missed: troupe.MissedAll, MissedMax: 7, DateArg: true, Args: []any{"one"}},
		{Name: "c", Cron: "0 9 * * *", Class: "C", ActiveJob: true, Queue: "q", QueuePrefix: "p", QueueDelimiter: ".", Args: []any{1.0, "x"}},
	}
	if diff := cmp.Diff(want, f.Periodic, byRetries); diff != "" {
		t.Error(diff)
	}
	if f.Zone.String() != "Asia/Tokyo" {
		t.Error(f.Zone)
	}
}

func TestPeriodicRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"periodic: here\n":                                                                         `periodic is "here", expected a map of periodic jobs by name`,
		"zone: Berlin\n":                                                                           `zone is "Berlin", expected a zone such as Europe/Berlin or +02:00`,
		"periodic: {a: {class: A}}\n":                                                              `periodic.a.cron is missing, expected cron with a line or an interval, such as "0 4 * * *" or every 2h`,
		"periodic: {a: {cron: '@daily'}}\n":                                                        `periodic.a.class is missing, expected the name of the class of its jobs`,
		"periodic: {a: {cron: '61 * * * *', class: A}}\n":                                          `periodic.a.cron is "61 * * * *", expected a cron line: minute "61": expected 0 to 59`,
		"periodic: {a: {cron: every weekday at 9:00, class: A}}\n":                                 `expected a cron line: a text: expected a cron line, which this command prints`,
		"periodic: {a: {cron: '@daily', class: A, overlap: run}}\n":                                `periodic.a.overlap is "run", expected skip`,
		"periodic: {a: {cron: '@daily', class: A, missed: some}}\n":                                `periodic.a.missed is "some", expected one of skip, last, all`,
		"periodic: {a: {cron: '@daily', class: A, quee: x}}\n":                                     `periodic.a.quee is no known key, expected queue`,
		"periodic: [{cron: '@daily', class: A}]\n":                                                 `periodic[0].name is missing, expected a name`,
		"periodic: {a: {cron: '@daily', class: A}}\ncron: [{name: a, cron: '@daily', class: B}]\n": `cron[0] is named "a", expected a name that no other periodic job has`,
		"schedule: {a: {every: 1h}}\n":                                                             `schedule.a.every is sidekiq-scheduler's, which counts it in each process from its start, expected cron with a line or an interval, such as "0 4 * * *" or every 2h; or periodic: elsewhere in this file, if another process runs them`,
		"scheduler: {schedule: {a: {interval: 1h}}}\n":                                             `scheduler.schedule.a.interval is sidekiq-scheduler's`,
		"schedule: {a: {in: 1h}}\n":                                                                `schedule.a.in is sidekiq-scheduler's, which runs it once in each process`,
		"schedule: {a: {at: '2027-01-01'}}\n":                                                      `schedule.a.at is sidekiq-scheduler's, which runs it once`,
		"schedule: {a: {cron: ['@daily', {first_in: 5s}]}}\n":                                      `schedule.a.cron is a list, expected a word`,
		"schedule: {a: {cron: '@daily', include_metadata: true}}\n":                                `schedule.a.include_metadata is "true", expected no such key: each job has its tick in the field troupe_tick`,
		"cron_schedule_file: <%= x %>\n":                                                           `ERB`,
	} {
		_, err := Parse("troupe.yml", []byte(text), "")
		harness.ErrorHas(t, text, err, want)
		if strings.Contains(want, "or periodic: elsewhere") {
			if _, err := Parse("troupe.yml", []byte(text+"periodic: elsewhere\n"), ""); err != nil {
				t.Errorf("%s, elsewhere: %v", text, err)
			}
		}
	}
	const shards = "periodic: {a: {cron: '@daily', class: A}}\nshards: {one: {redis: 'redis://h'}}\nhandlers: {A: {builtin: noop}}\n"
	t.Chdir(t.TempDir())
	harness.OK(t, os.WriteFile("troupe.yml", []byte(shards), 0o600))
	_, err := Load(Flags{}, func(string) string { return "" })
	harness.ErrorHas(t, "shards", err, "periodic is given beside shards")
}

// sidekiq-scheduler's jobs do not run if it is off, and none that another process runs.
func TestPeriodicJobsThatDoNotRun(t *testing.T) {
	for _, text := range []string{
		"scheduler: {enabled: false, schedule: {a: {every: 1h}}}\n",
		"enabled: false\nschedule: {a: {cron: '@daily'}}\n",
		"periodic: elsewhere\ncron_schedule_file: no.yml\nschedule: {a: {cron: '@daily'}}\n",
	} {
		f, err := Parse("sidekiq.yml", []byte(text), "")
		if err != nil || len(f.Periodic) > 0 || f.scheduleNamed {
			t.Errorf("%s: %v, %v", text, err, f.Periodic)
		}
	}
}

// The file of sidekiq-cron is read beside config/sidekiq.yml, or where cron_schedule_file says.
func TestScheduleFile(t *testing.T) {
	const handlers = "handlers: {A: {builtin: noop}}\n"
	const jobs = "nightly:\n  cron: '0 4 * * *'\n  class: A\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		flags Flags
		names string // of the jobs
		fault string
	}{
		{"usual", map[string]string{"config/sidekiq.yml": handlers, "config/schedule.yml": jobs}, Flags{}, "nightly", ""},
		{"a list", map[string]string{"config/sidekiq.yml": handlers, "config/schedule.yml": "- {name: x, cron: '@daily', class: A}\n"}, Flags{}, "x", ""},
		{"none", map[string]string{"config/sidekiq.yml": handlers}, Flags{}, "", ""},
		{"empty", map[string]string{"config/sidekiq.yml": handlers, "config/schedule.yml": "# none\n"}, Flags{}, "", ""},
		{"not troupe's", map[string]string{"troupe.yml": handlers, "config/schedule.yml": jobs}, Flags{}, "", ""},
		{"elsewhere", map[string]string{"config/sidekiq.yml": handlers + "periodic: elsewhere\n", "config/schedule.yml": "a: {}"}, Flags{}, "", ""},
		{"named", map[string]string{"troupe.yml": handlers + "cron_schedule_file: jobs.yml\n", "jobs.yml": jobs}, Flags{}, "nightly", ""},
		{"both", map[string]string{"config/sidekiq.yml": handlers + "periodic: {x: {cron: '@daily', class: A}}\n", "config/schedule.yml": jobs}, Flags{}, "x nightly", ""},
		{"missing", map[string]string{"troupe.yml": handlers + "cron_schedule_file: jobs.yml\n"}, Flags{}, "", `cron_schedule_file is "jobs.yml", expected a file that can be read`},
		{"twice", map[string]string{"config/sidekiq.yml": handlers + "periodic: {nightly: {cron: '@daily', class: A}}\n", "config/schedule.yml": jobs}, Flags{}, "", `config/schedule.yml:2: nightly is named "nightly", expected a name that no other periodic job has`},
		{"wrong", map[string]string{"config/sidekiq.yml": handlers, "config/schedule.yml": "a: {cron: '0 4 * *', class: A}\n"}, Flags{}, "", `config/schedule.yml:1: a.cron is "0 4 * *", expected a cron line: 4 fields`},
		{"ERB", map[string]string{"config/sidekiq.yml": handlers, "config/schedule.yml": "a:\n  cron: '@daily'\n  class: <%= X %>\n"}, Flags{}, "", `config/schedule.yml:3: line is ERB (<%= X %>), expected plain YAML`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for name, text := range tt.files {
				harness.OK(t, os.MkdirAll(filepath.Dir(name), 0o700))
				harness.OK(t, os.WriteFile(name, []byte(text), 0o600))
			}
			s, err := Load(tt.flags, func(string) string { return "" })
			if tt.fault != "" {
				harness.ErrorHas(t, tt.name, err, tt.fault)
				return
			}
			harness.OK(t, err)
			var names []string
			for _, job := range s.Periodic {
				names = append(names, job.Name)
			}
			if diff := cmp.Diff(strings.Fields(tt.names), names, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
