package contender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/troupehq/troupe/bench/internal/progress"
)

// Task is the arguments of every job: four in a row in Sidekiq's format, an
// object elsewhere.
type Task struct {
	Index int64  `arg:"0" json:"index"`
	At    int64  `arg:"1" json:"at"`    // progress.Now when it was pushed; 0: nobody wants to know how long it waited
	Sleep int64  `arg:"2" json:"sleep"` // µs that it takes
	Pad   string `arg:"3" json:"pad"`
	Fan   int64  `arg:"4,optional" json:"fan,omitempty"` // jobs that it pushes
}

const class = "Bench"

// Class is the name on Sidekiq's wire.
func (Task) Class() string { return class }

// Kind is the name in river.
func (Task) Kind() string { return class }

var errFailed = errors.New("this job fails")

// retryIn is when a failed job is tried again: after the measurement.
const retryIn = time.Hour

// Session is a worker process at work.
type Session struct {
	Work
	Progress *progress.Progress
}

// Perform is the handler of all contenders.
func (s *Session) Perform(t Task) error {
	if t.At > 0 {
		s.Progress.Sample(t.Index, progress.Now()-t.At)
	}
	if t.Sleep > 0 {
		time.Sleep(time.Duration(t.Sleep) * time.Microsecond)
	}
	s.Progress.Add(1)
	if s.Fail {
		return errFailed
	}
	return nil
}

// children are the jobs that t pushes.
func (t Task) children(yield func(Task) bool) {
	for i := range t.Fan {
		if !yield(Task{Index: i}) {
			return
		}
	}
}

// Child runs this process as a worker if it was started as one; then it does
// not return. Main functions and TestMain call it first.
func Child() {
	text, ok := os.LookupEnv(workVariable)
	if !ok {
		return
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for { // all is pushed; the driver reads what it took, and kills
		time.Sleep(time.Hour)
	}
}

func serve(text string) error {
	s := &Session{}
	if err := json.Unmarshal([]byte(text), &s.Work); err != nil {
		return err
	}
	c, err := Find(s.Contender)
	if err != nil {
		return err
	}
	if s.Progress, err = progress.Open(s.Work.Progress); err != nil {
		return err
	}
	run := c.Serve
	if s.Work.Push != nil {
		run = c.Push
	}
	if run == nil {
		return fmt.Errorf("%s cannot do that", c.Name)
	}
	return run(context.Background(), s)
}

// each calls push for the numbers from 0 in as many goroutines as the mode
// asks for, counts each call, and notes how long each took.
func (s *Session) each(ctx context.Context, push func(ctx context.Context, i int) error) error {
	workers := s.Work.Push.Goroutines()
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < s.Work.Push.Jobs && errs[w] == nil; i += workers {
				before := progress.Now()
				errs[w] = push(ctx, i)
				s.Progress.Sample(int64(i), progress.Now()-before)
				s.Progress.Add(1)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
