package config

import (
	"fmt"
	"strings"
)

// sections are the keys under which the common gems find their periodic jobs.
var sections = map[string]string{
	"schedule":           "sidekiq-scheduler or sidekiq-cron",
	"scheduler":          "sidekiq-scheduler", // since its version 5: with a schedule in it
	"cron":               "sidekiq-cron",
	"cron_schedule_file": "sidekiq-cron",
}

// wantPeriodic tells how to say that they are not forgotten.
const wantPeriodic = "the key periodic: elsewhere in this file, if another process runs them"

// periodic notes the periodic jobs of e, which nothing here runs; false: there are
// none. They are faults unless the file has the key periodic: without a word they
// would stop with the Ruby process that has run them.
func (p *parse) periodic(e entry, field string) bool {
	gem, ok := sections[e.key]
	if !ok {
		return false
	}
	jobs := e.value
	if e.key == "scheduler" {
		jobs = &node{}
		for _, in := range e.value.entries {
			if in.key == "schedule" {
				jobs, field = in.value, field+"."+in.key
			}
		}
	}
	names := jobs.jobNames()
	if len(names) == 0 {
		return false
	}
	line := jobs.line
	if jobs == e.value {
		line = e.line
	}
	p.unrun = append(p.unrun, Fault{
		Line: line, Field: field, Want: wantPeriodic,
		Value: fmt.Sprintf("for periodic jobs of %s, which are not run here (%s)", gem, strings.Join(names, ", ")),
	})
	return true
}

// jobNames are the names of periodic jobs: of a map its keys, of a list what its maps
// have under name, and the name of a file.
func (n *node) jobNames() (names []string) {
	switch n.kind {
	case null:
	case scalar:
		if n.text != "" {
			names = append(names, n.String())
		}
	case mapping:
		for _, e := range n.entries {
			names = append(names, clip(e.key))
		}
	case list:
		for i, item := range n.items {
			name := fmt.Sprintf("number %d", i+1)
			for _, e := range item.entries {
				if e.key == "name" {
					name = clip(e.value.text)
				}
			}
			names = append(names, name)
		}
	}
	return names
}

// runElsewhere adds the faults of periodic jobs, unless the file says who runs them.
func (p *parse) runElsewhere() {
	if p.elsewhere {
		return
	}
	for _, f := range p.unrun {
		p.fault(f.Line, f.Field, f.Value, f.Want)
	}
}
