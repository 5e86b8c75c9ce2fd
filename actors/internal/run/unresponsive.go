package run

import (
	"bytes"
	"cmp"
	"context"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/tree"
	"github.com/troupehq/troupe/internal/words"
)

const (
	maxShown = 20   // of a capsule: the tree goes to Redis with each beat
	maxStack = 2048 // bytes of a stack that are kept
)

// unresponsive are the unresponsive jobs of a capsule.
type unresponsive struct {
	mu   sync.Mutex
	jobs []*unresponsiveJob
}

type unresponsiveJob struct {
	r     *Run
	shown tree.Unresponsive
	cause error
}

// cancelled is called when the context of a job that runs was cancelled: it has
// the grace to end. What is done then may panic: the error is the user's, and so are log hooks.
func (r *Run) cancelled(cause error) {
	since := time.Now()
	time.AfterFunc(r.env.Grace, func() {
		r.env.System.Spawn(r.slot.Path(), func() { r.checkEnd(since, cause) })
	})
}

func (r *Run) checkEnd(since time.Time, cause error) {
	if r.over.Load() || r.listed.Swap(true) {
		return
	}
	v, u := r.env, &r.env.unresponsive
	shown := tree.Unresponsive{JobRef: r.Ref(), Since: since, Cause: cause.Error(), Stack: r.stack()}
	u.mu.Lock()
	u.jobs = append(u.jobs, &unresponsiveJob{r: r, cause: cause, shown: shown})
	u.mu.Unlock()
	v.Publish(event.JobUnresponsive{JobEvent: r.now(), Unresponsive: shown})
	v.replaceUnresponsive()
	if r.over.Load() { // in the meantime: whoever comes second takes it off
		v.responded(r)
	}
	v.Log.Error().Str("actor", r.slot.Path()).Str("jid", words.Text(r.jid)).
		Str("class", words.Text(r.class)).Str("queue", words.Text(r.w.Unit.Queue)).
		Str("cause", words.Text(shown.Cause)).Str("stack", shown.Stack).
		Msg("a job is unresponsive: it goes on although its context was cancelled")
}

// responded is called when a job that was listed has ended.
func (v *Env) responded(r *Run) {
	u := &v.unresponsive
	u.mu.Lock()
	u.jobs = slices.DeleteFunc(u.jobs, func(j *unresponsiveJob) bool { return j.r == r })
	u.mu.Unlock()
	v.replaceUnresponsive()
}

// replaceUnresponsive gives the slots of unresponsive jobs to others, as far as the limit allows.
func (v *Env) replaceUnresponsive() {
	var given []*unresponsiveJob
	quiet, u := v.Quiet(), &v.unresponsive
	u.mu.Lock()
	replaced := map[any]bool{} // the slots: the jobs of a call have one
	for _, j := range u.jobs {
		if j.shown.Replaced {
			replaced[j.r.inCall()] = true
		}
	}
	for _, j := range u.jobs {
		if in := j.r.inCall(); (replaced[in] || len(replaced) < v.MaxUnresponsive) && !j.shown.Replaced && !quiet {
			j.shown.Replaced = true
			replaced[in] = true
			given = append(given, j)
		}
	}
	u.mu.Unlock()
	for _, j := range given {
		j.r.free()
		v.System.Spawn(v.Path, j.r.giveUp(j.cause))
	}
}

// giveUp fails the job of a run that is not waited for any longer. Its own
// outcome will be refused.
func (r *Run) giveUp(cause error) func() {
	now := time.Now()
	p, err := r.parse()
	if err != nil {
		p = nil
	}
	end := &Run{facts: r.facts, ended: now, payload: p, err: cause, returned: true}
	if p != nil && job.HasOwn(r.w.Unit.Payload) {
		end.own = new(own)
		end.batched()
		if end.locked(); end.own.lock != nil && end.own.lock.Until == troupe.UntilStart {
			end.own.lock = nil // freed before the run
		}
	}
	r.handSlots(end)
	end.freed.Store(true)
	return func() {
		if r.env.Ledger.IsOpen(r.w) { // else its outcome is decided already
			defer func() { end.ensure(recover()) }()
			end.decide()
		}
	}
}

// Unresponsive returns the unresponsive jobs, the oldest first, and the items of all jobs whose
// slots were given away.
func (v *Env) Unresponsive() (jobs []tree.Unresponsive, replaced []*work.Item) {
	u := &v.unresponsive
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, j := range u.jobs {
		if i < maxShown {
			jobs = append(jobs, j.shown)
		}
		if j.shown.Replaced {
			replaced = append(replaced, j.r.w)
		}
	}
	slices.SortFunc(jobs, func(a, b tree.Unresponsive) int { return a.Since.Compare(b.Since) })
	return jobs, replaced
}

// CountUnresponsive is how many jobs are unresponsive.
func (v *Env) CountUnresponsive() int {
	v.unresponsive.mu.Lock()
	defer v.unresponsive.mu.Unlock()
	return len(v.unresponsive.jobs)
}

// The goroutine of a slot has a label in profiles by which its stack is found.
const slotLabel = "troupe"

// Labels are those of the goroutine of the processor at path.
func Labels(path string) context.Context {
	return pprof.WithLabels(context.Background(), pprof.Labels(slotLabel, path))
}

// stack is where the user's code is that runs the job.
func (r *Run) stack() string {
	if c, ok := r.inCall().(*Call); ok {
		return stackOf(c.slot.Path(), callFrame)
	}
	return stackOf(r.slot.Path(), performFrame)
}

// stackOf finds the stack of what runs below frame in the slot of the processor at path in a profile of all
// goroutines; "" if it has set labels of its own.
func stackOf(path, frame string) string {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	label := `"` + slotLabel + `":"` + path + `"`
	var found []string
	for group := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(group, label) {
			found = append(found, frames(group))
		}
	}
	// Goroutines that the job has started have its label, too: the job's own runs us.
	slices.SortStableFunc(found, func(a, b string) int {
		return cmp.Compare(strings.Index(b, frame), strings.Index(a, frame))
	})
	if len(found) == 0 {
		return ""
	}
	stack, _, _ := strings.Cut(found[0], frame)
	return strings.TrimSpace(stack[:min(len(stack), maxStack)])
}

const (
	performFrame = "run.(*Run).perform"
	callFrame    = "run.(*Call).perform"
)

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
