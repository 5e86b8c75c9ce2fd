// Package fleet reads from Redis what commands, pages and metrics show of the processes and queues
// of a fleet, those of Ruby too.
package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/internal/control"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/tree"
)

// Fleet looks at one Redis. Its methods are safe for concurrent use.
type Fleet struct {
	Redis     redis.UniversalClient
	Inspector *inspect.Inspector
	Mask      *mask.Masker // of what processes tell of failures; nil shows all
}

// New looks at the Redis of rdb, and masks with m what processes tell; nil masks nothing.
func New(rdb redis.UniversalClient, m *mask.Masker) *Fleet {
	i := inspect.New(rdb)
	i.MaxRead = inspect.Shown
	return &Fleet{Redis: rdb, Inspector: i, Mask: m}
}

// The phases of a process.
const (
	Running  = "running"
	Quiet    = "quiet"
	Stopping = "stopping"
	Silent   = "silent" // two beats are missing
	Gone     = "gone"   // it has died: it did not take its leave, and is off the list
)

// Process is one of the fleet, as of its last beat.
type Process struct {
	Identity     string    `json:"identity"`
	Runtime      string    `json:"runtime"` // troupe or ruby
	Tag          string    `json:"tag"`
	Version      string    `json:"version"`
	Phase        string    `json:"phase"`
	Busy         int       `json:"busy"`
	Slots        int       `json:"slots"`
	Queues       []string  `json:"queues"`
	Restarts     *int      `json:"restarts"`     // of its actors; null for Ruby
	Recent       *int      `json:"restarts_1m"`  // within the last minute; null for Ruby
	Unresponsive *int      `json:"unresponsive"` // jobs; null for Ruby
	RSS          int64     `json:"rss_kb"`
	Beat         time.Time `json:"beat"`

	Pulse *beat.Pulse      `json:"-"` // nil for Ruby
	Known *inspect.Process `json:"-"` // nil if it is gone
}

// Takes reports whether q is one of the queues of a process. Those of other systems that are elsewhere in
// Redis than Sidekiq's are not: the same name is another queue.
func (p *Process) Takes(q string) bool { return slices.Contains(p.Queues, q) && p.elsewhere(q) == "" }

// elsewhere is the system that keeps a queue elsewhere; "" for those of Sidekiq.
func (p *Process) elsewhere(q string) string {
	if p.Pulse == nil {
		return ""
	}
	return p.Pulse.Elsewhere[q]
}

// Listens reports whether a process takes jobs from its queues: not if it is quiet, silent or gone.
func (p *Process) Listens() bool { return p.Phase == Running }

// Troubled reports whether something is not as it should be.
func (p *Process) Troubled() bool {
	if p.Phase == Silent || p.Phase == Gone {
		return true
	}
	if p.Pulse == nil {
		return false
	}
	down := func(c beat.PulseCapsule) bool { return c.Down+c.Held > 0 || p.Phase == Running && c.Stopped > 0 }
	return p.Pulse.Recent+p.Pulse.Unresponsive > 0 || p.Pulse.Log != "" || p.Phase == Running && len(p.Pulse.Actors) > 0 || slices.ContainsFunc(p.Pulse.Capsules, down)
}

// Processes are those of the fleet, by identity, and then those that have died within the last
// 15 minutes.
func (f *Fleet) Processes(ctx context.Context) ([]Process, error) {
	known, err := f.Inspector.Processes(ctx)
	if err != nil {
		return nil, err
	}
	pulses, err := beat.ReadPulses(ctx, f.Redis)
	if err != nil {
		return nil, fmt.Errorf("read pulses: %w", err)
	}
	now := time.Now()
	var all []Process
	for _, k := range known {
		p := Process{
			Identity: k.Identity, Runtime: "ruby", Tag: k.Tag, Version: k.Version, Phase: Running, Busy: k.Busy, Slots: k.Concurrency,
			Queues: append([]string{}, k.Queues...), RSS: k.RSS, Beat: k.Beat, Known: k,
		}
		if k.Stopping {
			p.Phase = Quiet
		}
		p.tell(f.hide(pulses[k.Identity]))
		delete(pulses, k.Identity)
		if now.Sub(p.Beat) > beat.Silence {
			p.Phase = Silent
		}
		all = append(all, p)
	}
	live := len(all)
	for id, dead := range pulses {
		at := time.UnixMilli(int64(dead.At * 1e3))
		if now.Sub(at) < beat.Silence { // it is between the two reads
			continue
		}
		p := Process{Identity: id, Tag: dead.Tag, Version: dead.Version, Queues: []string{}, Beat: at}
		p.tell(f.hide(dead))
		for _, c := range dead.Capsules {
			p.Busy, p.Slots = p.Busy+c.Busy, p.Slots+c.Busy+c.Idle+c.Down+c.Held
		}
		p.Phase = Gone
		all = append(all, p)
	}
	slices.SortFunc(all[live:], func(a, b Process) int { return b.Beat.Compare(a.Beat) })
	return all, nil
}

// hide masks what is secret in the failure that a pulse tells.
func (f *Fleet) hide(p *beat.Pulse) *beat.Pulse {
	if p != nil {
		p.Failure = f.Mask.Text(p.Failure)
		for name, r := range p.Outboxes {
			r.Error, r.Reason = f.Mask.Text(r.Error), f.Mask.Text(r.Reason)
			p.Outboxes[name] = r
		}
	}
	return p
}

// tell adds what the pulse of a process of troupe tells.
func (p *Process) tell(from *beat.Pulse) {
	if from == nil {
		return
	}
	p.Pulse, p.Runtime = from, "troupe"
	p.Restarts, p.Recent, p.Unresponsive = &from.Restarts, &from.Recent, &from.Unresponsive
	if from.Phase != "" {
		p.Phase = from.Phase
	}
}

// Tree is the published tree of a process; nil if it has none, as in Ruby.
func (f *Fleet) Tree(ctx context.Context, identity string) (t tree.Tree, err error) {
	text, err := f.Inspector.Tree(ctx, identity)
	if errors.Is(err, inspect.ErrNotFound) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	if err != nil {
		return nil, fmt.Errorf("the tree of %s: %w", identity, err)
	}
	return f.Shown(t), nil
}

// Shown is a tree without what is secret in its failures.
func (f *Fleet) Shown(t tree.Tree) tree.Tree {
	t = slices.Clone(t)
	for i := range t {
		n := &t[i]
		n.LastFailure, n.Note = f.Mask.Text(n.LastFailure), f.Mask.Text(n.Note)
		n.Unresponsive = slices.Clone(n.Unresponsive)
		for j := range n.Unresponsive {
			n.Unresponsive[j].Cause = f.Mask.Text(n.Unresponsive[j].Cause)
		}
	}
	return t
}

// Troubled reports whether an actor is not as it should be.
func Troubled(n tree.Node) bool {
	fine := []tree.State{tree.StateRunning, tree.StateIdle, tree.StateBusy}
	return !slices.Contains(fine, n.State) || n.Restarts > 0 || n.LastFailure != "" || len(n.Unresponsive) > 0 || n.Note != ""
}

// freshTime is how long Refresh waits for processes.
const freshTime = time.Second

// Refresh has processes of troupe publish what is so now, and waits for that, a second at most; of
// those that do not answer what their last beat told is known. Silent ones are not asked. That is
// a write: asked is false if Redis refuses it, and then of all of them the last beat is known.
func (f *Fleet) Refresh(ctx context.Context, processes []Process) (asked bool, err error) {
	call, cancel := context.WithTimeout(ctx, freshTime)
	defer cancel()
	processes = slices.DeleteFunc(slices.Clone(processes), func(p Process) bool { return p.Phase == Silent })
	err = control.Send(call, f.Redis, Ours(processes), control.Request{Do: control.Look}, func(control.Reply) bool { return true })
	if errors.Is(err, control.ErrNoReply) && ctx.Err() == nil {
		return true, nil
	}
	if _, refused := redisconn.Refused(err); refused {
		return false, nil
	}
	return err == nil, err
}

// Ours are the identities of the live processes of troupe: those that obey requests.
func Ours(processes []Process) (ids []string) {
	for _, p := range processes {
		if p.Pulse != nil && p.Phase != Gone {
			ids = append(ids, p.Identity)
		}
	}
	return ids
}

// Counts are the processes by phase.
type Counts struct {
	Live    int            `json:"live"`
	Troupe  int            `json:"troupe"`
	Ruby    int            `json:"ruby"`
	Phases  map[string]int `json:"phases"`
	Trouble int            `json:"trouble"`
}

// CountAll counts processes.
func CountAll(processes []Process) Counts {
	c := Counts{Phases: map[string]int{}}
	for i := range processes {
		p := &processes[i]
		c.Phases[p.Phase]++
		if p.Troubled() {
			c.Trouble++
		}
		if p.Phase == Gone {
			continue
		}
		if c.Live++; p.Runtime == "ruby" {
			c.Ruby++
		} else {
			c.Troupe++
		}
	}
	return c
}
