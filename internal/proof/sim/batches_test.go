package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
)

// In a part of the plans jobs are in batches: small, empty, open ones that grow and are closed late, batches within batches that the
// client makes or a job with its ack, batches that are cancelled. Some jobs die, and are retried by people, some are poison. batchbook_test.go
// judges what becomes of them.

// Batch is a batch of a plan.
type Batch struct {
	After   time.Duration // since the client has done with the one before it
	Jobs    []Job
	Below   []Batch      // made in the function of this one
	On      map[int]*Job // callbacks, by the index of events
	Open    bool
	Grows   int           // jobs that the client adds to an open one
	Closes  time.Duration // an open one, after each of these
	Cancels time.Duration // so long after all that; 0: never
}

// The events that have callbacks.
var events = []string{"complete", "success", "death"}

// Numbers of jobs of batches.
const (
	batchNumber  = 0x20000000 // and 0x100 times the number of the batch
	grownNumber  = 0x80       // and the number of the job that the client adds
	firedNumber  = 0xf0       // and the index of the event
	ownGrown     = 3          // beside childNumber: a job that the run adds to its batch
	ownMade      = 6          // one of the batch that it makes
	ownFired     = 10         // a callback of that
	betweenLooks = 2 * time.Second
)

// drawBatches has jobs be in batches.
func drawBatches(t *rapid.T, p *Plan) {
	p.Jobs = p.Jobs[:min(len(p.Jobs), draw(t, "other jobs", 0, 4))]
	for range draw(t, "batches", 1, 3) {
		p.Batches = append(p.Batches, drawBatch(t, 2))
	}
	p.Revives = draw(t, "revives", 0, 1) == 1
	for range draw(t, "troubles of callbacks", 0, 1) {
		p.Troubles = append(p.Troubles, Trouble{
			At: span(t, "at", [2]int{0, 1000}, [2]int{0, 15000}), For: span(t, "for", [2]int{1, 300}, [2]int{300, 6000}), Key: keys.Queue(pick(t, "key", queues...)),
		})
	}
	for range draw(t, "faults of joins", 0, 2) {
		f := drawFault(t, len(p.Fleet))
		if f.Place < len(p.Fleet) && f.Kind != Rollback && f.Kind != Failover {
			f.OfPushes, f.OfJobs, f.Step = true, false, draw(t, "step", 0, 5)
			p.Faults = append(p.Faults, f)
		}
	}
}

// allBatches are those that the client makes.
func (p Plan) allBatches() (all []*Batch) {
	var add func(list []Batch)
	add = func(list []Batch) {
		for i := range list {
			all = append(all, &list[i])
			add(list[i].Below)
		}
	}
	add(p.Batches)
	return all
}

// drawPoison has jobs of batches kill. The rest is as with other jobs that do.
func drawPoison(t *rapid.T, p *Plan) {
	for _, b := range p.allBatches() {
		if len(b.Jobs) == 0 || draw(t, "killer", 0, 1) == 0 {
			continue
		}
		j := &b.Jobs[draw(t, "killer", 0, len(b.Jobs)-1)]
		j.Dies, j.Drops, j.Kills = false, false, pick(t, "kills", KillsAtStart, KillsAtEnd)
	}
	if !p.poisoned() {
		return
	}
	p.Peers = 0
	for i := range p.Faults {
		if k := &p.Faults[i].Kind; *k == Rollback || *k == Failover {
			*k = Restart
		}
	}
}

func drawBatch(t *rapid.T, deeper int) Batch {
	b := Batch{After: span(t, "after", [2]int{0, 50}, [2]int{0, 4000}), On: map[int]*Job{}}
	for range draw(t, "jobs", 0, 4) {
		j := drawJob(t)
		switch draw(t, "kind", 0, 11) {
		case 1, 2:
			j.Dies = true
		case 3:
			j.Drops = true
		case 4, 5:
			j.Grows = draw(t, "grows", 1, 2)
		case 6, 7:
			j.Makes = &Batch{Jobs: make([]Job, draw(t, "made", 0, 2)), On: drawCallbacks(t)}
			for i := range j.Makes.Jobs {
				j.Makes.Jobs[i] = Job{Queue: pick(t, "queue", queues...), Fails: draw(t, "fails", 0, 1), Dies: draw(t, "dies", 0, 7) == 7}
			}
		case 8:
			j.Links = draw(t, "links", 1, 2)
		case 9:
			j.Items = draw(t, "items", 2, 4)
		case 10:
			j.Pushes = draw(t, "pushes", 1, 2)
		}
		b.Jobs = append(b.Jobs, j)
	}
	if deeper > 0 {
		for range pick(t, "below", 0, 0, 1, 1, 2) {
			b.Below = append(b.Below, drawBatch(t, deeper-1))
		}
	}
	b.On = drawCallbacks(t)
	if b.Open = draw(t, "open", 0, 3) == 3; b.Open {
		b.Grows, b.Closes = draw(t, "grows", 0, 2), span(t, "closes", [2]int{1, 100}, [2]int{0, 6000})
	}
	if draw(t, "cancelled", 0, 5) == 5 {
		b.Cancels = span(t, "cancels", [2]int{1, 100}, [2]int{0, 4000})
	}
	return b
}

func drawCallbacks(t *rapid.T) map[int]*Job {
	on := map[int]*Job{}
	for i := range events {
		if draw(t, "callback", 0, 3) > 0 {
			on[i] = &Job{Queue: pick(t, "queue", queues...), Lasts: span(t, "lasts", [2]int{0, 5}, [2]int{0, 1000}), Fails: draw(t, "fails", 0, 3) / 3}
		}
	}
	return on
}

// text is a batch for people.
func (b *Batch) text(indent string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%sbatch after %s, open %t, grows %d, closes %s, cancels %s\n", indent, b.After, b.Open, b.Grows, b.Closes, b.Cancels)
	for i, event := range events {
		if j := b.On[i]; j != nil {
			fmt.Fprintf(&out, "%s  on %s: %s\n", indent, event, j)
		}
	}
	for i := range b.Jobs {
		j := &b.Jobs[i]
		fmt.Fprintf(&out, "%s  %s\n", indent, j)
		if j.Makes != nil {
			out.WriteString(j.Makes.text(indent + "    makes "))
		}
	}
	for i := range b.Below {
		out.WriteString(b.Below[i].text(indent + "  "))
	}
	return out.String()
}

// addBatch adds a batch that the client makes, and its jobs.
func (b *book) addBatch(plan *Batch, up *batch) *batch {
	k := b.newBatch(plan, up)
	number := batchNumber + 0x100*len(b.batches.all)
	for i := range plan.Jobs {
		s := b.add(number+i, &plan.Jobs[i])
		k.jobs = append(k.jobs, s)
		b.chain(s)
	}
	for i := range plan.Grows {
		k.grown = append(k.grown, b.add(number+grownNumber+i, &Job{Queue: queues[i%2], Lasts: 20 * time.Millisecond}))
	}
	k.callbacks(b, number+firedNumber)
	for i := range plan.Below {
		k.below = append(k.below, b.addBatch(&plan.Below[i], k))
	}
	return k
}

func (b *book) newBatch(plan *Batch, up *batch) *batch {
	k := &batch{name: fmt.Sprintf("b%d", len(b.batches.all)+1), plan: plan, maker: up, places: map[int]string{}}
	b.batches.all = append(b.batches.all, k)
	return k
}

// callbacks adds the callbacks of a batch.
func (k *batch) callbacks(b *book, number int) {
	for i := range events {
		if j := k.plan.On[i]; j != nil {
			k.on[i] = b.add(number+i, j)
			k.on[i].callbackOf = k
		}
	}
}

// ownBatches adds what a run pushes into batches.
func (b *book) ownBatches(p *pushing, number int) {
	s := p.of
	add := func(n int, plan *Job) *state {
		c := b.add(number+n, plan)
		c.parent, c.push = s, p
		p.children = append(p.children, c)
		return c
	}
	if s.in.ID != "" {
		for i := range s.plan.Grows {
			p.grown = append(p.grown, add(ownGrown+i, &Job{Queue: queues[i%2], Lasts: 30 * time.Millisecond}))
		}
	}
	if plan := s.plan.Makes; plan != nil {
		p.made = b.newBatch(plan, b.batches.of(s.in.ID))
		for i := range plan.Jobs {
			p.made.jobs = append(p.made.jobs, add(ownMade+i, &plan.Jobs[i]))
		}
		p.made.callbacks(b, number+ownFired)
	}
}

// pushBatches pushes what a run pushes into batches, with its ack.
func (p *pushing) pushBatches(ctx context.Context, w *world) error {
	if len(p.grown) > 0 {
		if err := client.Within(ctx).GrowBatch(ctx, p.of.in.ID, func(in *client.Batch) error { return pushInto(ctx, in, w, p.grown) }); err != nil {
			return err
		}
	}
	if p.made != nil {
		return p.made.make(ctx, client.Within(ctx), w)
	}
	return nil
}

// make makes a batch.
func (k *batch) make(ctx context.Context, c *client.Client, w *world) error {
	opts := client.BatchOptions{Name: k.name, Open: k.plan.Open}
	for i, item := range []*client.Item{&opts.Complete, &opts.Success, &opts.Death} {
		if s := k.on[i]; s != nil {
			*item = client.Job(s.args(), s.options()...)
		}
	}
	_, err := c.Batch(ctx, opts, func(in *client.Batch) error {
		w.book.batchIs(k, in.ID())
		if err := pushInto(ctx, in, w, k.jobs); err != nil {
			return err
		}
		for _, below := range k.below {
			if err := below.make(ctx, in.Client, w); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func pushInto(ctx context.Context, in *client.Batch, w *world, jobs []*state) (err error) {
	for _, s := range jobs {
		if s.plan.Links > 0 {
			_, err = in.PushChain(ctx, w.book.chainOf(s, s.options())...)
		} else {
			_, err = in.Push(ctx, s.args(), s.options()...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
