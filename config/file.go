package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/fetch"
)

// File is what a configuration file says, the section of its environment merged
// in. Zero values were not said.
type File struct {
	Concurrency int
	Timeout     time.Duration
	Verbose     bool
	Tag         string
	Labels      []string
	Environment string
	Queues      fetch.Queues // of the capsule default
	Capsules    []Capsule
	Handlers    []Handler

	Redis string // URL
	Lease time.Duration

	MaxRetries             int
	DeadMax                int
	DeadTimeout            time.Duration
	PollInterval           time.Duration
	PollIntervalPerProcess time.Duration
	Timestamps             troupe.Timestamps

	LogFormat string // "json", "console"
	LogLevel  string // "debug", "info", "warn", "error"

	Warnings []Warning

	// unclear: no handlers is a consequence of another fault.
	unclear bool
}

// Capsule is one entry of capsules:.
type Capsule struct {
	Name        string
	Concurrency int
	Queues      fetch.Queues

	line int
}

// Handler is one entry of handlers:, with either Builtin or Exec.
type Handler struct {
	Class   string
	Builtin string
	Exec    []string
	Timeout time.Duration

	line int
}

// Parse reads data, the text of a file that is called name in messages, as
// Sidekiq does: YAML whose keys may begin with a colon, and in which a section
// named like environment replaces the same keys of the rest. If environment is
// "", the file's own key environment chooses the section, or else it is
// development. Sections of other environments are checked as well.
//
// The error is a Faults, with every fault of the file.
func Parse(name string, data []byte, environment string) (*File, error) {
	p := &parse{name: name, out: &File{}}
	p.file(data, environment)
	return p.out, p.faults.err()
}

// parse is one run of Parse.
type parse struct {
	name   string
	erb    map[int]string
	faults Faults
	out    *File
	// where the two halves of the capsule default were given
	topLine, defaultLine int
}

func (p *parse) fault(line int, field, value, want string) {
	if _, ok := p.erb[line]; ok && line > 0 {
		return // has a fault already, this one may be a consequence
	}
	if strings.TrimSpace(field) == "" || strings.ContainsFunc(field, unicode.IsControl) {
		field = strconv.Quote(field)
	}
	field = clip(field)
	f := Fault{File: p.name, Line: line, Field: field, Value: value, Want: want}
	if !slices.Contains(p.faults, f) { // aliases are read more than once
		p.faults = append(p.faults, f)
	}
}

func (p *parse) bad(n *node, field, want string) { p.fault(n.line, field, n.String(), want) }

func (p *parse) warn(line int, field, why string) {
	w := Warning{File: p.name, Line: line, Field: field, Why: why}
	if !slices.Contains(p.out.Warnings, w) {
		p.out.Warnings = append(p.out.Warnings, w)
	}
}

func (p *parse) file(data []byte, environment string) {
	p.out.unclear = true
	if len(data) > maxFile {
		p.fault(0, "file", fmt.Sprintf("%d bytes long", len(data)), fmt.Sprintf("at most %d", maxFile))
		return
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	if !utf8.ValidString(text) {
		for i, l := range strings.Split(text, "\n") {
			if !utf8.ValidString(l) {
				p.fault(i+1, "line", "not UTF-8", "UTF-8")
			}
		}
		return
	}
	text, tags := blankERB(text)
	root := parseYAML(text, func(line int, field, value, want string) {
		if _, ok := tags[line]; !ok {
			p.fault(line, field, value, want)
		}
	})
	for line, tag := range tags {
		if tag != "" {
			p.faults = append(p.faults, erbFault(p.name, line, tag))
		}
	}
	p.erb = tags
	p.out.unclear = root.kind != mapping && len(p.faults) > 0
	switch root.kind {
	case null:
		return
	case mapping:
		p.root(root, environment)
	default:
		p.bad(root, "file", "a map of settings")
		p.out.unclear = true
	}
}

// root reads the top level, the section of the environment over it, and all
// other sections for their faults alone.
func (p *parse) root(root *node, environment string) {
	if environment == "" {
		environment = "development"
		for _, e := range root.entries {
			if e.key == "environment" && e.value.kind == scalar {
				environment = e.value.text
			}
		}
	}
	var chosen *node
	for _, e := range root.entries {
		switch {
		case settings[e.key] != nil:
			settings[e.key](p, e.value, e.key)
		case p.ignored(e, e.key):
		case isSection(e, environment):
			if e.key == environment {
				chosen = e.value
				continue
			}
			other := &parse{name: p.name, erb: p.erb, out: &File{}}
			other.section(e.value, e.key)
			other.oneDefault()
			p.faults = append(p.faults, other.faults...)
			for _, w := range other.out.Warnings {
				p.warn(w.Line, w.Field, w.Why)
			}
		default:
			p.unknown(e.line, e.key, e.key, settingNames())
		}
	}
	if chosen != nil {
		p.section(chosen, environment)
	}
	p.oneDefault()
}

func (p *parse) section(n *node, name string) {
	for _, e := range n.entries {
		field := name + "." + e.key
		switch {
		case settings[e.key] != nil:
			settings[e.key](p, e.value, field)
		case p.ignored(e, field):
		default:
			p.unknown(e.line, field, e.key, settingNames())
		}
	}
}

// oneDefault refuses a capsule default that is described in two places.
func (p *parse) oneDefault() {
	if p.topLine > 0 && p.defaultLine > 0 {
		p.fault(p.defaultLine, "capsules.default", "described twice",
			fmt.Sprintf("it here, or by the concurrency and queues of the top level (line %d), not both", p.topLine))
	}
}

func isSection(e entry, environment string) bool {
	usual := e.key == environment || slices.Contains([]string{"development", "test", "staging", "production"}, e.key)
	switch e.value.kind {
	case null:
		return usual
	case mapping:
		return usual || slices.ContainsFunc(e.value.entries, func(in entry) bool {
			return settings[in.key] != nil || foreign[in.key] != ""
		})
	case scalar, list:
	}
	return false
}
