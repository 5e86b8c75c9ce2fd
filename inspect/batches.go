package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// Batch is a batch of jobs (Client.Batch of package client), as it was when it was read. Batches of other systems are none.
type Batch struct {
	ID   string
	Name string    // as the program has named it; "" for none
	Made time.Time // when it was made; the zero time if that is not known
	Last time.Time // when a job was pushed into it or counted last

	Total   int64 // jobs that it has, batches within it and callbacks of those included
	Pending int64 // of them are not done
	Unrun   int64 // of them have not ended a run; the others that are pending have failed, and wait for a retry or are dead

	Closed bool // it may end; else it is open

	// When that has happened; the zero time if it has not.
	Complete, Success, Death, Cancelled time.Time

	Parent    string          // ID of the batch that it is a job of; "" for none
	Callbacks []BatchCallback // complete, success, death: those that it has

	i     *Inspector
	index uint32 // in Parent
}

// BatchCallback is what a batch pushes once.
type BatchCallback struct {
	Event string // complete, success or death
	Queue string
	JID   string    // of its job; "" if it was read by Batches
	Class string    // likewise
	At    time.Time // when it was pushed; the zero time if it was not

	// Refused reports that it is to be pushed, and that its queue has refused it: its key in Redis is of another type. When that is
	// mended Client.CloseBatch pushes it.
	Refused bool
}

// The states of a batch.
const (
	BatchOpen      = "open"      // it may get more jobs, and does not end before it is closed
	BatchRunning   = "running"   // not all of its jobs have ended a run
	BatchComplete  = "complete"  // all have, and not all are done
	BatchSucceeded = "succeeded" // all are done
	BatchCancelled = "cancelled" // its waiting jobs are dropped
)

// State is one of the states of a batch.
func (b *Batch) State() string {
	switch {
	case !b.Cancelled.IsZero():
		return BatchCancelled
	case !b.Success.IsZero():
		return BatchSucceeded
	case !b.Closed:
		return BatchOpen
	case b.Unrun > 0:
		return BatchRunning
	}
	return BatchComplete
}

// Ended reports whether nothing is pushed for it any more: it has succeeded, or was cancelled.
func (b *Batch) Ended() bool { return !b.Success.IsZero() || !b.Cancelled.IsZero() }

// Refused is the event whose callback its queue has refused; "" for none.
func (b *Batch) Refused() string {
	for _, c := range b.Callbacks {
		if c.Refused {
			return c.Event
		}
	}
	return ""
}

// Bounds of what is read of batches.
const (
	batchesShown  = 10_000
	childrenShown = 1000
)

var batchEvents = []string{"complete", "success", "death"}

// batchFields are those of the hash that are read of each batch. Those of batchEvents follow, and for one alone the texts of its callbacks.
var batchFields = []string{"total", "pending", "unrun", "closed", "name", "made", "last", "parent", "cancelled"}

// Batches returns the batches, the newest first. It reads 10,000, of more those whose keys live longest: the others have succeeded, or
// their last job has ended for long. Cut reports that there are more.
func (i *Inspector) Batches(ctx context.Context) (all []*Batch, cut bool, err error) {
	ids, err := i.db().ZRangeArgs(ctx, redis.ZRangeArgs{Key: keys.Batches, Start: 0, Stop: batchesShown, Rev: true}).Result()
	if err == nil {
		cut = len(ids) > batchesShown
		all, err = i.batches(ctx, ids[:min(len(ids), batchesShown)], false)
	}
	if err != nil {
		return nil, false, fmt.Errorf("list batches: %w", err)
	}
	slices.SortStableFunc(all, func(a, b *Batch) int { return cmp.Or(b.Made.Compare(a.Made), cmp.Compare(a.ID, b.ID)) })
	return all, cut, nil
}

// Batch returns the batch with that ID, or ErrNotFound. The keys of a batch expire a day after its success, else 30 days after the last time
// at which one of its jobs is due.
func (i *Inspector) Batch(ctx context.Context, id string) (*Batch, error) {
	all, err := i.batches(ctx, []string{id}, true)
	if err == nil && len(all) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read batch %.100q: %w", id, err)
	}
	return all[0], nil
}

// Children returns the batches that are jobs of this one, the oldest first, at most 1,000: more reports that there are others.
func (b *Batch) Children(ctx context.Context) (all []*Batch, more bool, err error) {
	ids, err := orNone(b.i).members(ctx, keys.BatchChildren(b.ID))
	if err == nil {
		more = len(ids) > childrenShown
		all, err = b.i.batches(ctx, ids[:min(len(ids), childrenShown)], false)
	}
	if err != nil {
		return nil, false, fmt.Errorf("list the batches within batch %s: %w", b.ID, err)
	}
	slices.SortStableFunc(all, func(a, b *Batch) int { return a.Made.Compare(b.Made) })
	return all, more, nil
}

// batches reads those that are there; whole also reads what the callbacks are.
func (i *Inspector) batches(ctx context.Context, ids []string, whole bool) (all []*Batch, err error) {
	names := slices.Clone(batchFields)
	for _, part := range []string{"", "to:", "on:"}[:map[bool]int{false: 2, true: 3}[whole]] {
		for _, event := range batchEvents {
			names = append(names, part+event)
		}
	}
	cmds := make([]redis.Cmder, len(ids))
	for n, id := range ids {
		args := []any{"hmget", keys.Batch(id)}
		for _, name := range names {
			args = append(args, name)
		}
		cmds[n] = redis.NewSliceCmd(ctx, args...)
	}
	if err := i.pipelined(ctx, cmds); err != nil {
		return nil, err
	}
	for n, id := range ids {
		values := cmds[n].(*redis.SliceCmd).Val()
		f := make(map[string]string, len(values))
		for k, v := range values {
			if text, ok := v.(string); ok {
				f[names[k]] = text
			}
		}
		if f["pending"] != "" {
			all = append(all, i.batch(id, f))
		}
	}
	return all, nil
}

func (i *Inspector) batch(id string, f map[string]string) *Batch {
	b := &Batch{
		ID: id, Name: f["name"], Made: timeOf(f["made"]), Last: timeOf(f["last"]), i: i,
		Total: number(f["total"]), Pending: number(f["pending"]), Unrun: number(f["unrun"]), Closed: f["closed"] != "",
		Complete: timeOf(f["complete"]), Success: timeOf(f["success"]), Death: timeOf(f["death"]), Cancelled: timeOf(f["cancelled"]),
	}
	in, _ := job.ParseInBatch(f["parent"])
	b.Parent, b.index = in.ID, in.Index
	waits := b.Closed && b.Cancelled.IsZero()
	for _, event := range batchEvents {
		queue, ok := f["to:"+event]
		if !ok {
			continue
		}
		c := BatchCallback{Event: event, Queue: queue, At: timeOf(f[event])}
		switch event {
		case "complete":
			c.Refused = waits && b.Unrun <= 0 && c.At.IsZero()
		case "success":
			c.Refused = waits && b.Pending <= 0 && c.At.IsZero() && !b.Complete.IsZero()
		}
		if text := f["on:"+event]; text != "" {
			if p, err := troupe.ParsePayload([]byte(text + "}")); err == nil {
				c.JID, c.Class = p.JID(), p.Class()
			}
		}
		b.Callbacks = append(b.Callbacks, c)
	}
	return b
}

// Batch is the batch that the job belongs to, and its index there; "" if it belongs to none. Of a job that is cut it may not be known.
func (r *JobRecord) Batch() (id string, index uint32) {
	in, _ := job.BatchOf(r.Payload)
	return in.ID, in.Index
}

// CallbackOf is the batch whose callback the job is, and of which event; "" if it is none.
func (r *JobRecord) CallbackOf() (id, event string) { return job.CallbackOf(r.Payload) }

// FindCallback returns the batch that has not pushed yet the callback with that jid, and the callback; ErrNotFound if none does. It looks at as
// many batches as Batches does.
func (i *Inspector) FindCallback(ctx context.Context, jid string) (*Batch, *BatchCallback, error) {
	all, _, err := i.Batches(ctx)
	var ids []string
	for _, b := range all {
		if !b.Ended() && slices.ContainsFunc(b.Callbacks, func(c BatchCallback) bool { return c.At.IsZero() }) {
			ids = append(ids, b.ID)
		}
	}
	for page := range slices.Chunk(ids, scanPage) {
		if err == nil {
			all, err = i.batches(ctx, page, true)
		}
		for _, b := range all {
			for n := range b.Callbacks {
				if c := &b.Callbacks[n]; err == nil && c.JID == jid && c.At.IsZero() {
					return b, c, nil
				}
			}
		}
	}
	if err == nil {
		err = ErrNotFound
	}
	return nil, nil, fmt.Errorf("find the callback %s: %w", strings.ToValidUTF8(jid, "?"), err)
}
