package testkit

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
)

// soon is the limit of what should happen at once, on a loaded machine too.
const soon = 30 * time.Second

// Await polls until cond holds, and fails the test if it does not within limit:
// what other processes do has no signal here.
func Await(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// LogLine is one line of a JSON log.
type LogLine map[string]any

// Str is a field that is a string, "" if it is none.
func (l LogLine) Str(key string) string { s, _ := l[key].(string); return s }

// Strs is a field that is a list of strings.
func (l LogLine) Strs(key string) (out []string) {
	list, _ := l[key].([]any)
	for _, v := range list {
		s, _ := v.(string)
		out = append(out, s)
	}
	return out
}

// Logged returns the lines of the log, on stderr or stdout, with this message.
func (p *Process) Logged(message string) (found []LogLine) {
	for _, text := range []string{p.Stderr.String(), p.Stdout.String()} {
		for text := range strings.Lines(text) {
			var l LogLine
			if strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &l) == nil && l.Str("message") == message {
				found = append(found, l)
			}
		}
	}
	return found
}

// AwaitLog waits for a line of the log and returns the first one. The test fails
// if the process ends without it, or if it does not come within 30 s.
func (p *Process) AwaitLog(message string) LogLine {
	p.t.Helper()
	Await(p.t, soon, p.Name+" logs "+strconv.Quote(message), func() bool { return len(p.Logged(message)) > 0 || !p.Running() })
	lines := p.Logged(message)
	if len(lines) == 0 {
		p.t.Fatalf("%s has ended with code %d and has not logged %q", p.Name, p.Exit(soon), message)
	}
	return lines[0]
}

// Ready waits until a daemon of troupe runs, which its log tells at level info,
// and returns its identity.
func (p *Process) Ready() (identity string) {
	p.t.Helper()
	return p.AwaitLog("troupe is running").Str("identity")
}

// Drain is the drain report of a daemon that has stopped.
func (p *Process) Drain() LogLine {
	p.t.Helper()
	lines := p.Logged("stopped")
	if len(lines) != 1 {
		p.t.Fatalf("%d drain reports in the log of %s", len(lines), p.Name)
	}
	report, _ := lines[0]["drain"].(map[string]any)
	return report
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

// tail is the end of s, n bytes of it.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + s[len(s)-n:]
}
