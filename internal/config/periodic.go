package config

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/sched"
)

// gems are the keys under which they find their periodic jobs in a sidekiq.yml.
var gems = map[string]string{
	"schedule":           "sidekiq-scheduler or sidekiq-cron",
	"scheduler":          "sidekiq-scheduler", // since its version 5: with a schedule in it
	"cron":               "sidekiq-cron",
	"cron_schedule_file": "sidekiq-cron",
}

const (
	wantPeriodic = `a map of periodic jobs by name, such as nightly: {cron: "0 4 * * *", class: Report}, or elsewhere, if another process runs them`
	wantCron     = `cron with a line or an interval, such as "0 4 * * *" or every 2h`
	// elsewhere tells in a fault of a gem's section how to be rid of it.
	elsewhere = "; or periodic: elsewhere in this file, if another process runs them"
)

// periodicEntry is a periodic job of a file.
type periodicEntry struct {
	troupe.Periodic
	line         int // of the entry
	cronLine     int
	at           string // field
	environments []string
}

// periodicPart is what one key said: its jobs and what is wrong with them, which is told unless
// another process runs them.
type periodicPart struct {
	entries []periodicEntry
	file    string // that lists them
	off     bool   // sidekiq-scheduler is told not to run them
	faults  Faults
}

// part reads one key with periodic jobs. Later ones replace it, such as those of the environment.
func (p *parse) part(key string, read func(*periodicPart)) {
	if p.periodic == nil {
		p.periodic = map[string]*periodicPart{}
	}
	before, part := len(p.faults), &periodicPart{}
	read(part)
	part.faults = slices.Clone(p.faults[before:])
	p.faults = p.faults[:before]
	p.periodic[key] = part
}

// ownPeriodic reads the key periodic.
func (p *parse) ownPeriodic(n *node, field string) {
	if p.elsewhere = n.plain() == "elsewhere"; p.elsewhere {
		p.out.PeriodicElsewhere = true
		return
	}
	p.part("periodic", func(part *periodicPart) { part.entries = p.entries(n, field, false) })
}

// gemPeriodic reads a key of one of the gems. It returns false if the key lists no periodic jobs.
func (p *parse) gemPeriodic(e entry, field string) bool {
	if gems[e.key] == "" {
		return false
	}
	n, off := e.value, false
	switch {
	case e.key == "cron_schedule_file" && n.plain() != "":
		p.part(e.key, func(part *periodicPart) { part.file = n.plain() })
		return true
	case e.key == "scheduler":
		n = &node{}
		for _, in := range e.value.entries {
			switch in.key {
			case "schedule":
				n, field = in.value, field+"."+in.key
			case "enabled":
				off = in.value.kind == scalar && !p.bool(in.value, field+"."+in.key)
			}
		}
	}
	if len(n.entries) == 0 && len(n.items) == 0 && (n.kind != scalar || n.text == "") {
		return false
	}
	p.part(e.key, func(part *periodicPart) {
		part.entries, part.off = p.entries(n, field, e.key != "cron"), off
		for i := range part.entries {
			part.entries[i].SidekiqScheduler = e.key != "cron"
		}
	})
	return true
}

// entries reads a map by name, or a list of maps with a name. named: an entry without a class is of
// the class that is called as it is, as in sidekiq-scheduler.
func (p *parse) entries(n *node, field string, named bool) (out []periodicEntry) {
	switch n.kind {
	case null:
	case mapping:
		for _, e := range n.entries {
			out = append(out, p.periodicJob(e.key, e.value, strings.TrimPrefix(field+"."+e.key, "."), named))
		}
	case list:
		for i, item := range n.items {
			at, name := fmt.Sprintf("%s[%d]", field, i), ""
			for _, e := range item.entries {
				if e.key == "name" {
					name = e.value.plain()
				}
			}
			if name == "" && item.kind == mapping {
				p.fault(item.line, at+".name", "missing", "a name")
			}
			out = append(out, p.periodicJob(name, item, at, named))
		}
	case scalar:
		p.bad(n, field, wantPeriodic)
	}
	return out
}

func (p *parse) periodicJob(name string, n *node, field string, named bool) periodicEntry {
	e := periodicEntry{Periodic: troupe.Periodic{Name: name}, line: n.line, at: field}
	before := len(p.faults)
	periodicSettings.read(p, &e, n, field, "a map with cron and class", p.alien)
	if named && e.Class == "" {
		e.Class = name
	}
	switch {
	case len(p.faults) > before:
	case e.Cron == "":
		p.fault(n.line, field+".cron", "missing", wantCron)
	case e.Class == "":
		p.fault(n.line, field+".class", "missing", "the name of the class of its jobs")
	}
	return e
}

// periodicSettings reads the value of each key of a periodic job, those of the gems among them.
var periodicSettings = readers[periodicEntry]{
	"name": func(*parse, *periodicEntry, *node, string) {},
	"cron": func(p *parse, e *periodicEntry, n *node, field string) {
		if n.kind == list && len(n.items) == 1 { // sidekiq-scheduler's form, with options behind it
			n = n.items[0]
		}
		e.Cron, e.cronLine = p.string(n, field), n.line
	},
	"class": func(p *parse, e *periodicEntry, n *node, field string) { e.Class = p.string(n, field) },
	"klass": func(p *parse, e *periodicEntry, n *node, field string) { e.Class = p.string(n, field) },
	"args": func(_ *parse, e *periodicEntry, n *node, _ string) {
		switch v := n.value().(type) {
		case nil:
		case []any:
			e.Args = v
		case string: // sidekiq-cron reads JSON in it
			var list []any
			if json.Unmarshal([]byte(v), &list) != nil {
				list = []any{v}
			}
			e.Args = list
		default:
			e.Args = []any{v}
		}
	},
	"queue": func(p *parse, e *periodicEntry, n *node, field string) { e.Queue = p.string(n, field) },
	"retry": func(p *parse, e *periodicEntry, n *node, field string) {
		switch f, number := n.number(); {
		case number && f == math.Trunc(f) && f >= 0 && f <= math.MaxInt32:
			e.Retries = troupe.Times(int(f))
		case n.kind != scalar || !p.bool(n, field):
			e.Retries = troupe.Never()
		}
	},
	"description": func(p *parse, e *periodicEntry, n *node, field string) { e.Description = p.string(n, field) },
	"namespace":   func(p *parse, e *periodicEntry, n *node, field string) { e.Namespace = p.string(n, field) },
	"status": func(p *parse, e *periodicEntry, n *node, field string) {
		e.Disabled = p.word(n, field, "enabled", "disabled") == "disabled"
	},
	"enabled": func(p *parse, e *periodicEntry, n *node, field string) {
		e.Disabled = n.kind == scalar && !p.bool(n, field)
	},
	"missed": func(p *parse, e *periodicEntry, n *node, field string) {
		e.Missed = troupe.Missed(p.word(n, field, string(troupe.MissedSkip), string(troupe.MissedLast), string(troupe.MissedAll)))
	},
	"missed_max": func(p *parse, e *periodicEntry, n *node, field string) { e.MissedMax = p.int(n, field, 1, 100_000) },
	"dst": func(p *parse, e *periodicEntry, n *node, field string) {
		e.Once = p.word(n, field, "fugit", "once") == "once"
	},
	"overlap": func(p *parse, e *periodicEntry, n *node, field string) {
		e.Overlap = troupe.Overlap(p.word(n, field, string(troupe.OverlapSkip)))
	},
	"date_as_argument": func(p *parse, e *periodicEntry, n *node, field string) { e.DateArg = p.bool(n, field) },
	"active_job":       func(p *parse, e *periodicEntry, n *node, field string) { e.ActiveJob = p.bool(n, field) },
	"queue_name_prefix": func(p *parse, e *periodicEntry, n *node, field string) {
		e.QueuePrefix = p.string(n, field)
	},
	"queue_name_delimiter": func(p *parse, e *periodicEntry, n *node, field string) {
		e.QueueDelimiter = p.string(n, field)
	},
	"symbolize_args": func(p *parse, _ *periodicEntry, n *node, field string) { p.bool(n, field) }, // a job has none
	"source":         func(*parse, *periodicEntry, *node, string) {},
	"rails_env": func(p *parse, e *periodicEntry, n *node, field string) {
		for _, names := range p.strings(n, field) {
			for name := range strings.SplitSeq(names, ",") {
				e.environments = append(e.environments, strings.TrimSpace(name))
			}
		}
	},
	"every":            notCron("sidekiq-scheduler's, which counts it in each process from its start", wantCron),
	"interval":         notCron("sidekiq-scheduler's, which counts it in each process from its start", wantCron),
	"in":               notCron("sidekiq-scheduler's, which runs it once in each process", "cron, or for one run troupe push --in"),
	"at":               notCron("sidekiq-scheduler's, which runs it once", "cron, or for one run troupe push --at"),
	"include_metadata": ifTrue("no such key: each job has its tick in the field troupe_tick"),
	"keyword_argument": ifTrue("no such key: arguments are a list"),
}

// notCron refuses a key of sidekiq-scheduler.
func notCron(what, want string) func(*parse, *periodicEntry, *node, string) {
	return func(p *parse, _ *periodicEntry, n *node, field string) {
		p.fault(n.line, field, what, want)
	}
}

// ifTrue refuses a key that is true.
func ifTrue(want string) func(*parse, *periodicEntry, *node, string) {
	return func(p *parse, _ *periodicEntry, n *node, field string) {
		if p.bool(n, field) {
			p.bad(n, field, want)
		}
	}
}

// periodicJobs puts together what all keys said: the jobs of this environment, and the file that
// lists more.
func (p *parse) periodicJobs(environment string) {
	if p.elsewhere {
		return
	}
	p.out.scheduleFile = defaultScheduleFile
	zone := p.out.Zone
	if zone == nil {
		zone = sched.Local()
	}
	for _, key := range []string{"periodic", "schedule", "scheduler", "cron", "cron_schedule_file"} {
		part := p.periodic[key]
		if part == nil {
			continue
		}
		if part.file != "" {
			p.out.scheduleFile, p.out.scheduleNamed = part.file, true
		}
		if part.off || p.schedulerOff && strings.HasPrefix(key, "schedule") {
			p.warn(0, key, "enabled is false")
			continue
		}
		for _, f := range part.faults {
			if gems[key] != "" {
				f.Want += elsewhere
			}
			p.fault(f.Line, f.Field, f.Value, f.Want)
		}
		for _, e := range part.entries {
			if e.environments != nil && !slices.Contains(e.environments, environment) {
				continue
			}
			p.periodicCron(e, zone)
			if slices.ContainsFunc(p.out.Periodic, func(o troupe.Periodic) bool { return o.Name == e.Name && o.Namespace == e.Namespace }) {
				p.fault(e.line, e.at, fmt.Sprintf("named %q", e.Name), "a name that no other periodic job has")
			}
			p.out.Periodic = append(p.out.Periodic, e.Periodic)
		}
	}
}

// periodicCron checks the line of e, in the zone of lines that name none.
func (p *parse) periodicCron(e periodicEntry, zone *time.Location) {
	if e.Cron == "" {
		return // has a fault
	}
	if _, err := sched.Parse(e.Cron, zone); err != nil {
		text := fmt.Sprintf("%q", e.Cron)
		p.fault(e.cronLine, e.at+".cron", fmt.Sprintf("%q", clip(e.Cron)), "a cron line: "+strings.TrimPrefix(err.Error(), "cron line "+text+": "))
	}
}
