package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// In a part of the plans jobs have results, the ends of some are kept whatever they are, and the client waits for some. The book
// holds each end that is in Redis against the run that has written it: it comes in the step that ends the job, and says what that
// run has said. Who waits gets an end that the job has had, and nobody waits for one that is kept.

// Wait is a call of client.Await of a plan.
type Wait struct {
	Job   int // its number
	After time.Duration
}

// keptFor is longer than a world lasts.
const keptFor = 20 * time.Hour

func drawResults(t *rapid.T, p *Plan) {
	for i := range p.Jobs {
		j := &p.Jobs[i]
		j.Result, j.Kept = draw(t, "result", 0, 2) > 0, draw(t, "kept", 0, 2) > 0
		switch draw(t, "end", 0, 7) {
		case 6:
			j.Dies = true
		case 7:
			j.Drops = true
		}
	}
	for range draw(t, "waits", 0, 4) {
		if len(p.Jobs) > 0 {
			p.Waits = append(p.Waits, Wait{draw(t, "of", 1, len(p.Jobs)), span(t, "after", [2]int{0, 1000}, [2]int{0, 20000})})
		}
	}
}

// ended is how a job has ended, as far as the run says.
type ended struct{ outcome, result string }

func (e ended) String() string { return e.outcome + " " + e.result }

// waiting is a call of client.Await.
type waiting struct {
	s     *state
	asked bool
	over  bool
	got   ended
	err   error
	known bool // the book has judged it
}

// readEnd reads what is kept of a job.
func readEnd(text string) (e ended) {
	if text == "" {
		return e
	}
	got, err := job.ParseEnded([]byte(text))
	if err != nil {
		return ended{"unreadable", text}
	}
	return ended{got.Outcome, string(got.Result)}
}

// setResult has the run of a job say its result.
func (p *process) setResult(ctx context.Context, s *state, push *pushing) {
	if !s.plan.Result {
		return
	}
	push.result = fmt.Sprintf("%s, run %d, in %s", s.name, s.ran, p.name)
	if err := troupe.SetResult(ctx, push.result); err != nil && ctx.Err() == nil && !p.dead {
		p.w.fail("%s says its result: %v", s.name, err)
	}
}

// lookAtResults holds what is kept of the ends of jobs against the steps that have ended them.
func (b *book) lookAtResults(o *owner, words []string, before map[string][]string) {
	if !b.w.plan.keeps() {
		return
	}
	step, fell := stepOf(words), !b.w.fell.IsZero()
	for _, s := range b.allJobs() {
		if !s.plan.Result && !s.plan.Kept {
			continue
		}
		text, _ := b.w.redis.Get(keys.Result(s.jid()))
		now := readEnd(text)
		if text != "" && b.w.redis.TTL(keys.Result(s.jid())) <= 0 {
			b.w.fail("the end of %s is kept for ever", s.name)
		}
		want, ends := b.endOf(o, s, step, before)
		changed := text != s.kept
		s.kept = text
		switch {
		case ends && (fell || s.copies > 0): // which of two copies it was the book does not know
			if changed {
				want = now
			}
		case ends && now != want && time.Now().Before(b.w.full):
			b.w.seen["end not kept: out of memory"]++
			if changed {
				b.w.fail("%s ends as %q by %s without memory, and %q is kept", s.name, want, step, now)
			}
		case ends && now != want:
			b.w.fail("%s ends as %q by %s, and %q is kept", s.name, want, step, now)
		case !ends && changed && text != "" && (!fell || step != "settle"):
			b.w.fail("%s has not ended, and %q is kept of it by %s", s.name, now, step)
		case !ends && changed && text != "": // Redis has forgotten that it ended
			want, ends = now, true
		}
		if ends {
			s.ends = append(s.ends, want)
			b.w.seen["end kept: "+want.outcome]++
		}
	}
}

// endOf is how a step has ended a job whose end is to be kept.
func (b *book) endOf(o *owner, s *state, step string, before map[string][]string) (e ended, ok bool) {
	old, now := before[s.name], b.where[s.name]
	if step != "settle" || b.claims(o, old) <= b.claims(o, now) {
		return e, false
	}
	came, p := minus(now, old), b.runIn(o, s)
	switch how := b.howIn(o, s); {
	case slices.Contains(came, keys.Dead):
		return ended{outcome: job.EndedDead}, s.plan.Kept
	case len(came) > 0:
		return e, false
	case how == "dropped":
		return ended{outcome: "dropped"}, s.plan.Kept
	case how == "done" && p.result != "":
		text, _ := json.Marshal(p.result)
		return ended{"done", string(text)}, true
	case how == "done":
		return ended{"done", "null"}, s.plan.Kept
	}
	return e, false
}

// resultsFellBack notes what Redis keeps now.
func (b *book) resultsFellBack() {
	for _, s := range b.allJobs() {
		s.kept, _ = b.w.redis.Get(keys.Result(s.jid()))
	}
}

// waitForJobs has the client wait for jobs.
func (w *world) waitForJobs() {
	if len(w.plan.Waits) == 0 {
		return
	}
	rdb := w.newClient(w.client)
	c := client.New(rdb)
	for i, plan := range w.plan.Waits {
		wait := &waiting{s: w.book.job(fmt.Sprintf("j%x", plan.Job))}
		w.waits = append(w.waits, wait)
		go func() {
			time.Sleep(plan.After + time.Duration(i+1)*37*time.Microsecond) // a world is in a bubble
			w.mu.Lock()
			wait.asked = true
			w.mu.Unlock()
			result, err := c.Await(w.over, wait.s.jid())
			w.mu.Lock()
			defer w.mu.Unlock()
			wait.over, wait.got, wait.err = true, ended{"done", string(result)}, err // maybe before the book has looked at the end
			w.note()
		}()
	}
	context.AfterFunc(w.over, func() { _ = c.Close(context.Background()) })
}

// answers judges the answers that have come.
func (w *world) answers() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wait := range w.waits {
		if wait.over && !wait.known {
			wait.known = true
			w.book.answered(wait, wait.got, wait.err)
		}
	}
}

// answered judges what somebody was told who has waited for a job.
func (b *book) answered(wait *waiting, got ended, err error) {
	var failed *client.NotDoneError
	switch {
	case errors.As(err, &failed):
		got = ended{outcome: failed.Outcome}
		if failed.Class == "" || !strings.Contains(failed.Message, errFails.Error()) {
			b.w.fail("who waits for %s gets %v", wait.s.name, err)
		}
	case err != nil:
		b.w.fail("who waits for %s gets %v", wait.s.name, err)
		return
	}
	b.w.seen["answer to a wait: "+got.outcome]++
	if !slices.Contains(wait.s.ends, got) {
		b.w.fail("who waits for %s gets %q, and it has ended as %q", wait.s.name, got, wait.s.ends)
	}
}

// unanswered is who waits for a job whose end is kept.
func (w *world) unanswered() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wait := range w.waits {
		if !wait.over && (!wait.asked || wait.s.kept != "") {
			return ", and somebody waits for " + wait.s.name
		}
	}
	return ""
}

// keeps reports whether ends of jobs are kept.
func (p Plan) keeps() bool {
	return slices.ContainsFunc(p.Jobs, func(j Job) bool { return j.Result || j.Kept })
}
