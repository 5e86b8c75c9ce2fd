package e2e

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
)

// line is one line of a JSON log.
type line map[string]any

func (l line) str(key string) string { s, _ := l[key].(string); return s }

// jids is a list of strings.
func (l line) jids(key string) []string {
	list, _ := l[key].([]any)
	var out []string
	for _, v := range list {
		s, _ := v.(string)
		out = append(out, s)
	}
	return out
}

// logged returns the lines of the log with this message.
func (p *proc) logged(message string) []line {
	var found []line
	for text := range strings.Lines(p.stderr.String()) {
		var l line
		if json.Unmarshal([]byte(text), &l) == nil && l.str("message") == message {
			found = append(found, l)
		}
	}
	return found
}

// awaitLog waits for a line of the log and returns the first one.
func (p *proc) awaitLog(limit time.Duration, message string) line {
	p.t.Helper()
	await(p.t, limit, p.name+" logs "+strconv.Quote(message), func() bool { return len(p.logged(message)) > 0 })
	return p.logged(message)[0]
}

// ready waits until the daemon runs and returns its identity.
func (p *proc) ready() string {
	p.t.Helper()
	await(p.t, soon, p.name+" runs", func() bool { return len(p.logged("troupe is running")) > 0 || !p.running() })
	l := p.logged("troupe is running")
	if len(l) == 0 {
		p.t.Fatalf("%s has ended with code %d", p.name, p.exit(soon))
	}
	return l[0].str("identity")
}

// brief leaves out the lines of single jobs and cuts stacks short.
func brief(log string) string {
	var b strings.Builder
	for text := range strings.Lines(log) {
		if strings.Contains(text, `"message":"job `) || strings.Contains(text, `"message":"an actor crashed"`) {
			continue
		}
		if len(text) > 1000 {
			text = text[:1000] + "…\n"
		}
		b.WriteString(text)
	}
	return b.String()
}

func tailOf(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + s[len(s)-n:]
}

// drain is the drain report of the process.
func drain(t testing.TB, p *proc) line {
	t.Helper()
	lines := p.logged("stopped")
	if len(lines) != 1 {
		t.Fatalf("%d drain reports in the log of %s", len(lines), p.name)
	}
	report, _ := lines[0]["drain"].(map[string]any)
	return report
}
