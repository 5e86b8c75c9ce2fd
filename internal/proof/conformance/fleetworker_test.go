package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
)

// The Go half of a mixed fleet; testdata/fleet.rb is the other one.

const (
	fleetNotes = "fleet"       // list: starts and ends of runs
	fleetBegun = "fleet:begun" // hash: jid -> how often it has begun
)

// fleetNote is what both halves write down of a run, once when it starts and
// once when it ends.
type fleetNote struct {
	Run  string // the same in both
	What string // start, end
	Side string // go, ruby
	PID  int
	JID  string

	Failures int             `json:",omitempty"` // start: how often it has failed before
	Queue    string          `json:",omitempty"` // start
	Args     json.RawMessage `json:",omitempty"` // start
	Outcome  string          `json:",omitempty"` // end: ok, failed, interrupted
}

// fleetTask is the first argument of a job of class Fleet.
type fleetTask struct {
	Fails int  `json:"fails"` // so many runs fail, then one succeeds
	Nap   int  `json:"nap"`   // ms
	Hang  bool `json:"hang"`  // the first run lasts until a stop interrupts it
	Panic bool `json:"panic"` // in Go, fails by a panic
}

var fleetRuns atomic.Int64

// fleet performs a job of class Fleet.
func (w *worker) fleet(ctx context.Context, p *troupe.Payload) (err error) {
	var args []json.RawMessage
	var task fleetTask
	if err := errors.Join(json.Unmarshal(p.Args(), &args), json.Unmarshal(args[0], &task)); err != nil {
		return err
	}
	info, _ := troupe.JobInfoFrom(ctx)
	n := fleetNote{
		Run: fmt.Sprintf("%d-%d", os.Getpid(), fleetRuns.Add(1)), What: "start", Side: "go", PID: os.Getpid(), JID: p.JID(),
		Failures: p.Failures(), Queue: info.Queue, Args: p.Args(),
	}
	begun := w.noteRun(n, 1)
	defer func() {
		v := recover()
		end := fleetNote{Run: n.Run, What: "end", Side: "go", PID: n.PID, JID: n.JID, Outcome: "ok"}
		switch {
		case errors.Is(err, troupe.ErrShutdown):
			end.Outcome = "interrupted"
		case err != nil || v != nil:
			end.Outcome = "failed"
		}
		w.noteRun(end, 0)
		if v != nil {
			panic(v)
		}
	}()
	over := time.After(time.Duration(task.Nap) * time.Millisecond)
	if task.Hang && begun == 1 {
		over = nil
	}
	select {
	case <-over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if p.Failures() < task.Fails {
		if task.Panic {
			panic("go says no")
		}
		return failure{"Conformance::Failure", "go says no"}
	}
	return nil
}

// noteRun writes a note down and returns how often the job has begun; a job must
// not go on unrecorded.
func (w *worker) noteRun(n fleetNote, begun int64) int64 {
	ctx := context.Background()
	var count *redis.IntCmd
	_, err := w.book.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		count = pipe.HIncrBy(ctx, fleetBegun, n.JID, begun)
		return pipe.RPush(ctx, fleetNotes, asJSON(n)).Err()
	})
	if err != nil {
		panic(fmt.Sprintf("cannot write down a run: %v", err))
	}
	return count.Val()
}
