package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
)

// In a part of the plans jobs push others with their ack: what client.Within has kept, the next link of a chain,
// and what the items of an iterable job have pushed. The book holds each such push against the run that has made it:
// it enters Redis in the very step that settles its job there, or stores the cursor behind its item, and in no other.

// pushing is a run that pushes, or an item of one.
type pushing struct {
	of       *state
	by       *owner
	item     int // -1: of no item
	children []*state
	well     bool   // it has ended well
	how      string // and is "done" or "dropped"
	result   string // that the run has said

	grown []*state // of children: those that enter the batch of the job
	made  *batch   // with others of them
}

// Numbers of jobs that are pushed by others.
const (
	linkNumber  = 0x1000     // and 0x100 times the number of the first job of the chain, and that of the link
	childNumber = 0x100000   // 0x1000 times the number of the job, 0x10 times that of the run, and that of the child
	itemNumber  = 0x10000000 // 0x1000 times the number of the job, 0x100 times that of the item, and that of its run
)

// add adds a job of this number.
func (b *book) add(number int, plan *Job) *state {
	s := &state{name: fmt.Sprintf("j%x", number), number: number, plan: plan, running: map[string]bool{}, begun: map[string]bool{}, last: map[string]*pushing{}, taken: map[string]int{}, began: map[string]int{}}
	b.jobs[s.name] = s
	b.names = append(b.names, s.name)
	return s
}

// chain adds the jobs behind the first of a chain.
func (b *book) chain(s *state) {
	for i := range s.plan.Links {
		link := b.add(linkNumber+s.number*0x100+i, &Job{Queue: b.w.plan.queueOf(s.plan, i), Lasts: s.plan.Lasts / 4})
		link.parent, s.next = s, link
		s = link
	}
}

// queueOf is the queue of the nth job that another one pushes.
func (p Plan) queueOf(parent *Job, n int) string {
	if p.Cluster {
		return parent.Queue
	}
	return queues[(n+len(parent.Queue)+int(p.Order%2))%len(queues)]
}

// pushes notes that a run, or an item of one, is about to push.
func (b *book) pushes(o *owner, s *state, item int) *pushing {
	p := &pushing{of: s, by: o, item: item}
	n, number := s.plan.Pushes, childNumber+s.number*0x1000+s.ran*0x10
	if item >= 0 {
		s.items++
		n, number = 0, itemNumber+s.number*0x1000+s.items
		if b.w.plan.itemPushes(item) {
			n = 1
		}
	}
	if item < 0 {
		b.ownBatches(p, number)
	}
	for i := range n {
		c := b.add(number+i, &Job{Queue: b.w.plan.queueOf(s.plan, i), Lasts: time.Duration(i) * 50 * time.Millisecond})
		c.parent, c.push = s, p
		if i == 2 && !b.w.plan.Cluster {
			c.plan.In = 700 * time.Millisecond
		}
		if item < 0 && i%2 == 0 {
			c.plan.Unique = b.w.plan.Children
		}
		p.children = append(p.children, c)
	}
	if item < 0 {
		s.last[o.name] = p
	}
	s.pushings = append(s.pushings, p)
	return p
}

// itemPushes reports whether an item pushes: some do not.
func (p Plan) itemPushes(item int) bool { return (item+int(p.Order%3))%3 != 0 }

// push pushes the children of a run, or of an item, with its ack.
func (p *pushing) push(ctx context.Context, w *world) error {
	for _, c := range p.children {
		if slices.Contains(p.grown, c) || p.made != nil && slices.Contains(p.made.jobs, c) {
			continue
		}
		if err := c.within(ctx); err != nil {
			return err
		}
	}
	return p.pushBatches(ctx, w)
}

// effects judges what a command has brought into Redis that jobs have pushed, and the jobs that it has settled.
func (b *book) effects(o *owner, script string, before map[string][]string) {
	b.commands++
	for _, s := range b.allJobs() {
		if s.parent == nil {
			continue
		}
		old, now := before[s.name], b.where[s.name]
		n, parent := len(minus(now, old)), s.parent.name
		switch {
		case n == 0:
		case len(minus(old, now)) == 0:
			b.enters(o, script, s, n, before)
		case script == "settle" && (!b.w.fell.IsZero() || s.parent.copies > 0) && b.claims(o, before[parent]) > b.claims(o, b.where[parent]):
			// a copy of it is settled, or let in, as its parent, which Redis has had twice, pushes it again
			s.copies, s.hits, s.at = s.copies+n, s.hits+n, b.commands
		}
	}
	if script != "settle" && script != "take" {
		return
	}
	for _, s := range b.allJobs() {
		old, now := before[s.name], b.where[s.name]
		if b.claims(o, old) > b.claims(o, now) && len(minus(now, old)) == 0 && !slices.ContainsFunc(minus(old, now), s.between) {
			b.leaves(o, s) // it is acked, and this is not the second step of a move
		}
	}
}

// claims is in how many places of a process a job is in progress.
func (b *book) claims(o *owner, places []string) (n int) {
	for _, place := range places {
		if id, ok := strings.CutPrefix(place, "claim "); ok {
			identity, _, _ := strings.Cut(id, "#")
			if b.owners[identity].owner == o {
				n++
			}
		}
	}
	return n
}

// enters judges that a job is in Redis which another one pushes. After a fallback its run may push it again, and into
// a Redis that knows nothing of its job.
func (b *book) enters(o *owner, script string, c *state, n int, before map[string][]string) {
	had := b.claims(o, before[c.parent.name])
	left := had - b.claims(o, b.where[c.parent.name])
	fell := !b.w.fell.IsZero()
	if c.entered > 0 && (script != "settle" || left == 0 && fell) {
		if script == "settle" && (c.push == nil || c.push.by == o) {
			c.copies, c.hits = c.copies+n, c.hits+n // repeated, since Redis has forgotten it
		}
		return // it goes its way
	}
	switch {
	case script != "settle":
		b.w.fail("%s enters by %s, and not with the ack of %s", c.name, script, c.parent.name)
	case c.push != nil && c.push.by != o:
		b.w.fail("%s enters by %s, and was pushed in a run of %s", c.name, o.name, c.push.by.name)
	case c.push != nil && !c.push.well:
		b.w.fail("%s enters, and the run of %s that pushed it has not ended well", c.name, c.parent.name)
	case fell:
	case c.push != nil && c.push.item >= 0 && had == 0, (c.push == nil || c.push.item < 0) && left != n:
		b.w.fail("%s enters %d times in a step that settles %s %d times", c.name, n, c.parent.name, left)
	}
	more := n // than once; the first time may be that of two jobs which Redis has had twice
	if c.entered == 0 {
		more--
	}
	if c.entered += n; more > 0 && c.push != nil && !fell {
		b.w.fail("%s enters again", c.name)
	}
	c.copies, c.hits = c.copies+more, c.hits+more
	c.at = b.commands
	switch {
	case c.push == nil:
		b.w.seen["link of a chain pushed"]++
	case c.push.item < 0:
		b.w.seen["child pushed"]++
	case left == 0:
		b.w.seen["child of an item pushed with the cursor"]++
	default:
		b.w.seen["child of an item pushed with the ack"]++
	}
}

// leaves judges that a process has acked a job: what its run has pushed is there, since this step.
func (b *book) leaves(o *owner, s *state) {
	p := b.runIn(o, s)
	if p == nil || !p.well {
		return
	}
	if c := b.missing(p); c != nil && (b.w.fell.IsZero() || !slices.ContainsFunc(s.pushings, func(p *pushing) bool {
		return p.by == o && p.well && b.missing(p) == nil // of a copy
	})) {
		b.w.fail("%s is acked, and %s, which it has pushed, is not there", s.name, c.name)
	}
	if s.next != nil && s.next.at != b.commands {
		b.w.fail("%s is acked, and %s, the next of its chain, is not there", s.name, s.next.name)
	}
	if !b.w.fell.IsZero() {
		return
	}
	for item := range s.plan.Items {
		entered := 0
		for _, p := range s.pushings {
			if p.item == item && len(p.children) > 0 {
				entered += p.children[0].entered
			}
		}
		if want := map[bool]int{true: 1}[b.w.plan.itemPushes(item)]; entered != want && !s.ruby {
			b.w.fail("%s is acked, and item %d of it has pushed %d times", s.name, item, entered)
		}
	}
}

// missing is a child of a run that the last command has not pushed.
func (b *book) missing(p *pushing) *state {
	for _, c := range p.children {
		if c.at != b.commands && !b.isDuplicate(c) {
			return c
		}
	}
	return nil
}

// each is the class of iterable jobs.
type each struct{}

func (each) Class() string { return "Each" }

// items is the loop of an iterable job.
func (p *process) items(ctx context.Context, j *state, cursor *int, yield func(int, int) bool) error {
	w := p.w
	var run *ruled
	defer func() { w.book.leavesLimits(run) }()
	if !w.wait(p.owner, p.gone, nil, "starts "+j.name, time.Time{}, func() {
		w.book.runs(p.owner, j)
		run = w.book.begins(p, j)
		j.last[p.name] = &pushing{of: j, by: p.owner, item: -1}
		p.swallow(j, KillsAtStart)
	}) {
		return errGone
	}
	p.setResult(ctx, j, j.last[p.name])
	first := 0
	if cursor != nil {
		first = *cursor
	}
	for i := first; i < j.plan.Items; i++ {
		if !yield(i, i) {
			return nil
		}
	}
	return p.end(ctx, j, 0, j.last[p.name])
}

// item is the handler of an item.
func (p *process) item(ctx context.Context, j *state, item int) error {
	w := p.w
	var push *pushing
	if !w.wait(p.owner, p.gone, nil, fmt.Sprintf("item %d of %s", item, j.name), time.Time{}, func() { push = w.book.pushes(p.owner, j, item) }) {
		return errGone
	}
	if err := push.push(ctx, w); err != nil {
		return p.notKept(ctx, err)
	}
	fails := false
	if !w.wait(p.owner, p.gone, p.stopOf(ctx, j), fmt.Sprintf("end of item %d of %s", item, j.name), time.Now().Add(j.plan.Lasts/time.Duration(j.plan.Items)), func() {
		if fails = item == j.plan.Items/2 && w.book.failed(p.owner, j); !fails {
			push.well = true
		}
	}) {
		return context.Cause(ctx)
	}
	if fails {
		return errFails
	}
	return nil
}

// notKept returns the error of a push. Only the end of the process may keep one from being made.
func (p *process) notKept(ctx context.Context, err error) error {
	if ctx.Err() == nil && !p.dead {
		p.w.fail("%s pushes with its ack: %v", p.name, err)
	}
	return err
}

// iterable are the functions of the class of iterable jobs.
func (p *process) iterable(reg *troupe.Registry, opts troupe.Options) {
	find := func(jid string) *state { return p.w.book.job("j" + strings.TrimLeft(jid, "0")) }
	troupe.HandleIterable(reg, func(ctx context.Context, j *troupe.Job[each], cursor *int, yield func(int, int) bool) error {
		return p.items(ctx, find(j.JID), cursor, yield)
	}, func(ctx context.Context, j *troupe.Job[each], item int) error {
		return p.item(ctx, find(j.JID), item)
	}, troupe.IterableOptions[each]{Options: opts})
}

// chainOf are the jobs of a chain for its push.
func (b *book) chainOf(s *state, opts []client.Option) []client.Item {
	items := []client.Item{client.Job(s.args(), opts...)}
	for s = s.next; s != nil; s = s.next {
		items = append(items, client.Job(work{}, client.JID(s.jid()), client.Queue(s.plan.Queue)))
	}
	return items
}

func (s *state) args() troupe.Args {
	switch {
	case s.plan.Items > 0:
		return each{}
	case s.plan.Many:
		return several{}
	case s.unique():
		return one{s.plan.Unique.Group}
	}
	return work{}
}
