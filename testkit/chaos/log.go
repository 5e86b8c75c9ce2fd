package chaos

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/testkit"
)

// soon is the limit of an end that has begun.
const soon = 30 * time.Second

// Stdout is all that the process has written to its stdout so far, unless that was
// given with the command.
func (p *Process) Stdout() string { return p.stdout.String() }

// Stderr is all that the process has written to its stderr so far.
func (p *Process) Stderr() string { return p.stderr.String() }

// Logged returns the lines of the process's JSON log, on stderr or stdout, with this
// message.
func (p *Process) Logged(message string) (found []map[string]any) {
	for _, text := range []string{p.Stderr(), p.Stdout()} {
		for text := range strings.Lines(text) {
			var l map[string]any
			if strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &l) == nil && l["message"] == message {
				found = append(found, l)
			}
		}
	}
	return found
}

// AwaitLog waits for a line of the log and returns the first one. The test fails
// if the process ends without it, or if it does not come within a minute.
func (p *Process) AwaitLog(message string) map[string]any {
	p.tb.Helper()
	testkit.Await(p.tb, p.Name+" logs "+strconv.Quote(message), func() bool { return len(p.Logged(message)) > 0 || !p.Running() })
	lines := p.Logged(message)
	if len(lines) == 0 {
		p.tb.Fatalf("%s has ended with code %d and has not logged %q", p.Name, p.Exit(soon), message)
	}
	return lines[0]
}

// Ready waits until a daemon of troupe runs, which its log tells at level info,
// and returns its identity.
func (p *Process) Ready() (identity string) {
	p.tb.Helper()
	identity, _ = p.AwaitLog("troupe is running")["identity"].(string)
	return identity
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
