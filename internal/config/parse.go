package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/troupehq/troupe/internal/words"
)

// Parse reads data, the text of a file that is called name in messages, as
// Sidekiq does: YAML whose keys may begin with a colon, and in which a section
// named like environment replaces the same keys of the rest. An environment of
// "" is development; the file's own key environment does not choose the section.
// Sections of other environments are checked as well.
//
// At the top level, in sections and in capsules a key that nobody knows is a fault if it resembles a
// known one. Else it may be the application's own, and is a warning, whatever the file is
// called. A key that begins with x- is for anchors. Elsewhere an unknown key is a fault.
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
	top    map[string]given // of the top level: concurrency and queues

	elsewhere    bool                     // another process runs the periodic jobs
	schedulerOff bool                     // those of sidekiq-scheduler do not run
	periodic     map[string]*periodicPart // by the key that lists them
}

// given is where a key with a value stands.
type given struct {
	line  int
	field string
}

// says notes a key of the top level that describes the capsule default.
func (p *parse) says(key string, n *node, field string) {
	if p.top == nil {
		p.top = map[string]given{}
	}
	if n.kind != null {
		p.top[key] = given{n.line, field}
	}
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
	w := Fault{File: p.name, Line: line, Field: field, Ignored: why}
	if !slices.Contains(p.out.Warnings, w) {
		p.out.Warnings = append(p.out.Warnings, w)
	}
}

// notUTF8 are the numbers of the lines that are not UTF-8.
func notUTF8(text string) (numbers []int) {
	if utf8.ValidString(text) {
		return nil
	}
	for i, l := range strings.Split(text, "\n") {
		if !utf8.ValidString(l) {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

func (p *parse) file(data []byte, environment string) {
	p.out.unclear = true
	root := p.tree(data, "troupe.yml")
	if root == nil {
		return
	}
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

// tree reads the text of a file; nil: it is none. plain is where Ruby would write it without ERB.
func (p *parse) tree(data []byte, plain string) *node {
	if len(data) > maxFile {
		p.fault(0, "file", fmt.Sprintf("%d bytes long", len(data)), fmt.Sprintf("at most %d", maxFile))
		return nil
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	if strings.Contains(text, "\x00") {
		p.fault(0, "file", "binary (it has a zero byte)", "YAML in UTF-8")
		return nil
	}
	if wrong := notUTF8(text); len(wrong) > 0 {
		value := "not UTF-8"
		if len(wrong) > 1 {
			value += ", as are " + words.Count(len(wrong)-1) + " more"
		}
		p.fault(wrong[0], "line", value, "UTF-8")
		return nil
	}
	text, tags := blankERB(text)
	root := parseYAML(text, func(line int, field, value, want string) {
		if _, ok := tags[line]; !ok {
			p.fault(line, field, value, want)
		}
	})
	p.faults = append(p.faults, erbFaults(p.name, plain, tags)...)
	p.erb = tags
	return root
}

// root reads the top level, the section of the environment over it, and all
// other sections for their faults alone.
func (p *parse) root(root *node, environment string) {
	if environment == "" {
		environment = defaultEnvironment
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
			other.twoDefaults()
			p.faults = append(p.faults, other.faults...) // but no periodic jobs: they are not those of this environment
			for _, w := range other.out.Warnings {
				p.warn(w.Line, w.Field, w.Ignored)
			}
		default:
			p.stray(e, e.key, settingNames())
		}
	}
	if chosen != nil {
		p.section(chosen, environment)
	}
	p.twoDefaults()
	p.periodicJobs(environment)
	p.misnamed(root, environment)
}

func (p *parse) section(n *node, name string) {
	for _, e := range n.entries {
		field := name + "." + e.key
		switch {
		case settings[e.key] != nil:
			settings[e.key](p, e.value, field)
		case p.ignored(e, field):
		default:
			p.stray(e, field, settingNames())
		}
	}
}

// misnamed warns of a key environment that looks as if it chose a section.
func (p *parse) misnamed(root *node, environment string) {
	if p.out.Environment == environment {
		return
	}
	for _, e := range root.entries {
		if e.key == p.out.Environment && e.key != "" && settings[e.key] == nil && isSection(e, e.key) {
			p.warn(e.line, e.key, fmt.Sprintf("the environment is %s: as in Sidekiq, the flag -e or a variable "+
				"(APP_ENV, RAILS_ENV, RACK_ENV) chooses the section, not the key environment", environment))
		}
	}
}

// twoDefaults warns of what the top level says about the capsule default although
// that is listed and says it itself, which wins, as in Sidekiq.
func (p *parse) twoDefaults() {
	for _, c := range p.out.Capsules {
		for _, half := range []struct {
			key string
			own bool
		}{{"concurrency", c.Concurrency > 0}, {"queues", c.Queues != nil}} {
			if top, ok := p.top[half.key]; ok && half.own && c.Name == defaultCapsule {
				p.warn(top.line, top.field, "what capsules.default says itself counts, as in Sidekiq")
			}
		}
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
