package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
)

// nest is a job that makes a batch with its ack, which is named by its path. The batch has Jobs members, and as many batches of the same kind
// within it as the first of Below says.
type nest struct {
	Path  string
	Jobs  int
	Below []int
}

func (nest) Class() string { return "Nest" }

// member is a job of the batch with that path. One in three fails at first; one that Dies is dead after its first run, until repairedKey is set.
type member struct {
	Path string
	N    int
	Dies bool
}

func (member) Class() string { return "Member" }

// calledBack is a callback of the batch with that path.
type calledBack struct{ Path, Event string }

func (calledBack) Class() string { return "CalledBack" }

// repairedKey is set in the database of the records when jobs do not die any more.
const repairedKey = "e2e:repaired"

func callbacksOf(path string) client.BatchOptions {
	on := func(event string) client.Item { return client.Job(calledBack{path, event}) }
	return client.BatchOptions{Name: path, Complete: on("complete"), Success: on("success"), Death: on("death")}
}

// fill pushes the members of a batch, and what makes the batches within it.
func (n nest) fill(ctx context.Context, b *client.Batch) error {
	for i := range n.Jobs {
		if _, err := b.Push(ctx, member{n.Path, i, i == 0 && len(n.Below) == 0 && n.Path[len(n.Path)-1] == '0'}); err != nil {
			return err
		}
	}
	for i := 0; len(n.Below) > 0 && i < n.Below[0]; i++ {
		jobs := n.Jobs
		if len(n.Below) == 1 && i == n.Below[0]-1 {
			jobs = 0 // an empty one
		}
		if _, err := b.Push(ctx, nest{fmt.Sprint(n.Path, ".", i), jobs, n.Below[1:]}); err != nil {
			return err
		}
	}
	return nil
}

// batchClasses perform the jobs of batches.
func (w *worker) batchClasses() map[string]func(context.Context, *troupe.Payload) error {
	return map[string]func(context.Context, *troupe.Payload) error{
		"CalledBack": func(context.Context, *troupe.Payload) error { return nil },
		"Nest": func(ctx context.Context, p *troupe.Payload) error {
			var n nest
			if err := troupe.DecodeArgs(p.Args(), &n); err != nil {
				return troupe.Kill(err)
			}
			if p.Failures() == 0 && rand.N(2) == 0 {
				return failure{"once"}
			}
			_, err := client.Within(ctx).Batch(ctx, callbacksOf(n.Path), func(b *client.Batch) error { return n.fill(ctx, b) })
			return err
		},
		"Member": func(ctx context.Context, p *troupe.Payload) error {
			var m member
			if err := troupe.DecodeArgs(p.Args(), &m); err != nil {
				return troupe.Kill(err)
			}
			time.Sleep(rand.N(4 * time.Millisecond)) // in a process of its own, in real time
			switch {
			case m.Dies && w.records.Exists(ctx, repairedKey).Val() == 0:
				return troupe.Kill(failure{"it dies"})
			case m.N%3 == 0 && p.Failures() < 1+m.N%2:
				return failure{"at first"}
			}
			return nil
		},
	}
}

// batchEvent is what a worker has written down about a job of batches.
type batchEvent struct {
	event
	Of        string // path of its batch
	N         int
	Callback  string // event of the callback that it is
	Succeeded bool
}

func batchEvents(all []event) (found []batchEvent, err error) {
	for _, e := range all {
		b := batchEvent{event: e, Succeeded: e.What == "end" && e.Error == ""}
		switch e.Class {
		case "Member", "CalledBack":
			var args []struct {
				Path, Event string
				N           int
			}
			if err = json.Unmarshal([]byte(e.Args), &args); err != nil || len(args) != 1 {
				return nil, fmt.Errorf("arguments %s: %w", e.Args, err)
			}
			b.Of, b.Callback, b.N = args[0].Path, args[0].Event, args[0].N
			found = append(found, b)
		}
	}
	return found, nil
}
