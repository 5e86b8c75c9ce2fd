package demo

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// maxNotes is how many different notes are kept.
const maxNotes = 2 * maxNoteRows

// logLine is what is read of a log line.
type logLine struct {
	Message string `json:"message"`
	Actor   string `json:"actor"`
	Class   string `json:"class"`
	Outcome string `json:"outcome"`
	Error   string `json:"error"`
}

// key is equal for lines that tell the same of the same thing.
func (l logLine) key() string {
	if l.Class != "" {
		return l.Message + "\x00" + l.Class + "\x00" + l.Outcome
	}
	return l.Message + "\x00" + l.Actor + "\x00" + l.Outcome
}

// jobDone is in the one line of each job that went well: far too many to show,
// and too many to parse.
var jobDone = []byte(`"outcome":"done"`)

// parseLine reads a log line; false if it is not worth showing.
func parseLine(raw []byte) (logLine, bool) {
	if bytes.Contains(raw, jobDone) {
		return logLine{}, false
	}
	var l logLine
	if err := json.Unmarshal(raw, &l); err != nil {
		l.Message = string(bytes.TrimSpace(raw))
	}
	return l, true
}

// note is a log line as the view shows it, or several that tell the same.
type note struct {
	key   string
	at    time.Time // of the last one
	level zerolog.Level
	text  string // of the last one
	count int
}

// notes keeps the latest log lines. It is a zerolog.LevelWriter and safe for
// concurrent use.
type notes struct {
	mu   sync.Mutex
	list []note // oldest first
}

// Write implements io.Writer.
func (n *notes) Write(raw []byte) (int, error) { return n.WriteLevel(zerolog.InfoLevel, raw) }

// WriteLevel takes one log line.
func (n *notes) WriteLevel(level zerolog.Level, raw []byte) (int, error) {
	l, ok := parseLine(raw)
	if !ok {
		return len(raw), nil
	}
	parts := []string{l.Message, l.Actor, l.Class, l.Error}
	text := strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "  ")
	if l.Outcome != "" {
		text += " (" + l.Outcome + ")"
	}
	fresh := note{key: l.key(), at: time.Now(), level: level, text: text, count: 1}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, old := range n.list {
		if old.key == fresh.key {
			fresh.count += old.count
			n.list = append(n.list[:i], n.list[i+1:]...)
			break
		}
	}
	if len(n.list) == maxNotes {
		n.list = n.list[1:]
	}
	n.list = append(n.list, fresh)
	return len(raw), nil
}

// add takes lines that are no log lines.
func (n *notes) add(texts []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, text := range texts {
		n.list = append(n.list, note{key: text, at: time.Now(), level: zerolog.InfoLevel, text: text, count: 1})
	}
}

// latest returns a copy, oldest first.
func (n *notes) latest() []note {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]note(nil), n.list...)
}
