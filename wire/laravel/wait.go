package laravel

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// lookTime is how often delayed jobs and Laravel's keys of pauses are read.
const lookTime = time.Second

// waiting is the wait for a token: Laravel puts one into a list with each push. A wait that was
// left early goes on by itself, for a second at most, and the next one joins it: a token that
// comes late is not lost.
type waiting struct {
	mu   sync.Mutex
	paid []int         // tokens that waits have taken, by queue
	over chan struct{} // closed at the end of the wait that is under way; nil
	err  error         // of the last one
	shut bool
}

// Wait implements fetch.Fetcher.
func (f *fetcher) Wait(ctx context.Context, d time.Duration) error {
	over, err := f.beginWait(ctx, min(d, lookTime))
	if err != nil {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-over:
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	f.wait.mu.Lock()
	defer f.wait.mu.Unlock()
	return f.wait.err
}

// beginWait starts a wait, or joins the one that is under way.
func (f *fetcher) beginWait(ctx context.Context, d time.Duration) (over chan struct{}, err error) {
	var open []string
	if err := f.begin(ctx); err != nil {
		return nil, err
	}
	for _, q := range f.queues {
		if !f.signals.paused[q] {
			open = append(open, f.names.tokens(q))
		}
	}
	f.end()
	w := &f.wait
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shut {
		return nil, errClosed
	}
	if w.over == nil {
		w.over = make(chan struct{})
		go f.block(w.over, open, d)
	}
	return w.over, nil
}

// block waits for a token of one of the lists.
func (f *fetcher) block(over chan struct{}, lists []string, d time.Duration) {
	var got []string
	var err error
	switch {
	case d <= 0:
	case len(lists) == 0:
		time.Sleep(d)
	default:
		args := []any{"blpop"}
		for _, l := range lists {
			args = append(args, l)
		}
		// BLPop of go-redis knows whole seconds only.
		args = append(args, strconv.FormatFloat(d.Seconds(), 'f', 3, 64))
		if got, err = f.rdb.Do(context.Background(), args...).StringSlice(); errors.Is(err, redis.Nil) {
			err = nil
		}
	}
	w := &f.wait
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over, w.err = nil, err
	if len(got) > 0 {
		for i, q := range f.queues {
			if f.names.tokens(q) == got[0] {
				w.paid[i]++
			}
		}
	}
	close(over)
}

// takePaid returns how many tokens were taken, by queue, and begins anew.
func (f *fetcher) takePaid() []int {
	w := &f.wait
	w.mu.Lock()
	defer w.mu.Unlock()
	paid := w.paid
	w.paid = make([]int, len(f.queues))
	return paid
}

// endWait waits for the end of the wait that is under way, and gives back the tokens that no
// job was taken for: another worker may wait for them.
func (f *fetcher) endWait(ctx context.Context) {
	w := &f.wait
	w.mu.Lock()
	over := w.over
	w.shut = true
	w.mu.Unlock()
	if over != nil {
		<-over
	}
	for i, n := range f.takePaid() {
		for range n {
			f.rdb.RPush(ctx, f.names.tokens(f.queues[i]), "1")
		}
	}
}
