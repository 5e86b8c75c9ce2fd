package actors

import (
	"bytes"
	"cmp"
	"context"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/cut"
)

// Unresponsive is a job that does not end although its context was cancelled Config.Grace
// ago or longer: its timeout has passed, or another process has its unit.
type Unresponsive struct {
	JobRef
	Since    time.Time `json:"since"` // its context was cancelled
	Cause    string    `json:"cause"`
	Stack    string    `json:"stack,omitempty"` // of its goroutine, when it was found to be so
	Replaced bool      `json:"replaced"`        // its slot is another job's
}

const (
	maxShown = 20   // of a capsule: the tree goes to Redis with each beat
	maxStack = 2048 // bytes of a stack that are kept
)

// unresponsiveJob is one that does not end now. Guarded by capsule.mu.
type unresponsiveJob struct {
	e     *execution
	shown Unresponsive
	cause error
}

// cancelled is called when the context of a job that runs was cancelled: it has
// the grace to end.
func (e *execution) cancelled(cause error) {
	since := time.Now()
	time.AfterFunc(e.c.d.cfg.Grace, func() { e.checkEnd(since, cause) })
}

func (e *execution) checkEnd(since time.Time, cause error) {
	if e.over.Load() || e.listed.Swap(true) {
		return
	}
	c := e.c
	shown := Unresponsive{JobRef: e.w.ref(), Since: since, Cause: cause.Error(), Stack: c.stackOf(e.k.s.index)}
	c.mu.Lock()
	c.unresponsive = append(c.unresponsive, &unresponsiveJob{e: e, cause: cause, shown: shown})
	c.mu.Unlock()
	c.env.Log.Error().Str("actor", c.processorPath(e.k.s.index)).Str("jid", cut.Text(e.jid)).
		Str("class", cut.Text(e.class)).Str("queue", cut.Text(e.w.unit.Queue)).
		Str("cause", cut.Text(shown.Cause)).Str("stack", shown.Stack).
		Msg("a job is unresponsive: it goes on although its context was cancelled")
	if c.d.events.wanted.Load() {
		c.d.events.publish(JobUnresponsive{e.event(), shown})
	}
	c.replaceUnresponsive()
	if e.over.Load() { // in the meantime: whoever comes second takes it off
		c.ended(e)
	}
}

// ended is called when a job that was listed has ended.
func (c *capsule) ended(e *execution) {
	c.mu.Lock()
	c.unresponsive = slices.DeleteFunc(c.unresponsive, func(j *unresponsiveJob) bool { return j.e == e })
	c.mu.Unlock()
	c.replaceUnresponsive()
}

// replaceUnresponsive gives the slots of unresponsive jobs to others, as far as the limit allows.
func (c *capsule) replaceUnresponsive() {
	var given []*unresponsiveJob
	c.mu.Lock()
	replaced := 0
	for _, j := range c.unresponsive {
		if j.shown.Replaced {
			replaced++
		}
	}
	for _, j := range c.unresponsive {
		if replaced < c.cfg.MaxUnresponsive && !j.shown.Replaced && !c.quiet {
			j.shown.Replaced = true
			replaced++
			given = append(given, j)
		}
	}
	c.mu.Unlock()
	for _, j := range given {
		j.e.free()
		c.env.System.Spawn(c.path(""), j.e.giveUp(j.cause))
	}
}

// giveUp fails the job of a run that is not waited for any longer. Its own
// outcome will be refused.
func (e *execution) giveUp(cause error) func() {
	now := time.Now()
	p, err := troupe.ParsePayload(e.w.unit.Payload)
	if err != nil {
		p = nil
	}
	end := &execution{
		c: e.c, k: e.k, w: e.w, started: e.started, ended: now, payload: p,
		jid: e.jid, class: e.class, wrapped: e.wrapped, handler: e.handler, log: e.log, err: cause, returned: true,
	}
	end.freed.Store(true)
	return func() {
		if e.c.ledger.isOpen(e.w) { // else its outcome is decided already
			end.decide()
		}
	}
}

// unresponsiveNow lists the unresponsive jobs, the oldest first.
func (c *capsule) unresponsiveNow() []Unresponsive {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Unresponsive
	for _, j := range c.unresponsive[:min(len(c.unresponsive), maxShown)] {
		out = append(out, j.shown)
	}
	slices.SortFunc(out, func(a, b Unresponsive) int { return a.Since.Compare(b.Since) })
	return out
}

// abandoned are the jobs whose goroutines still run.
func (c *capsule) abandoned() []*work {
	var out []*work
	for _, w := range c.working() {
		out = append(out, w)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.unresponsive {
		if j.shown.Replaced {
			out = append(out, j.e.w)
		}
	}
	return out
}

// The goroutine of a slot has a label in profiles by which its stack is found.
const slotLabel = "troupe"

func slotLabels(path string) context.Context {
	return pprof.WithLabels(context.Background(), pprof.Labels(slotLabel, path))
}

// stackOf finds the stack of the job in slot i in a profile of all goroutines;
// "" if it has set labels of its own.
func (c *capsule) stackOf(i int) string {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	label := `"` + slotLabel + `":"` + c.processorPath(i) + `"`
	var found []string
	for group := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(group, label) {
			found = append(found, frames(group))
		}
	}
	// Goroutines that the job has started have its label, too: the job's own runs us.
	slices.SortStableFunc(found, func(a, b string) int {
		return cmp.Compare(strings.Index(b, executeFrame), strings.Index(a, executeFrame))
	})
	if len(found) == 0 {
		return ""
	}
	stack, _, _ := strings.Cut(found[0], executeFrame)
	return strings.TrimSpace(stack[:min(len(stack), maxStack)])
}

const executeFrame = "actors.(*execution).perform"

// frames is a group of a goroutine profile as lines "function file:line".
func frames(group string) string {
	var b strings.Builder
	for line := range strings.Lines(group) {
		fields := strings.Fields(strings.TrimPrefix(line, "#"))
		if len(fields) == 3 && strings.HasPrefix(fields[0], "0x") {
			fn, _, _ := strings.Cut(fields[1], "+0x")
			b.WriteString(fn + " " + fields[2] + "\n")
		}
	}
	return b.String()
}
