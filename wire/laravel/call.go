package laravel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/script"
)

// move is a way of a job out of the reserved set.
type move struct {
	job   *reservation
	kind  string // as the script exchange has it
	text  []byte
	score float64
	trim  fetch.Trim
}

// call is one call of the script exchange.
type call struct {
	number uint64
	moves  []move
	back   int // of the moves: the first are f.back
	want   int
	wants  []fetch.Want
	paid   []int // tokens, by queue
}

// errRefused is what Redis said of one move.
type errRefused string

func (e errRefused) Error() string { return string(e) }

// RedisError marks it as an answer of Redis.
func (errRefused) RedisError() {}

// settled makes sure that no call is pending and that the leases are fresh: what Redis has not
// heard of for long would be taken for lapsed by our own next look.
func (f *fetcher) settled(ctx context.Context) error {
	if f.pending != nil {
		if err := f.do(ctx, f.pending); err != nil && !errors.As(err, new(errRefused)) {
			return err
		}
	}
	if len(f.held) > 0 && time.Since(f.renewed) > f.env.Lease/2 {
		return f.renew(ctx)
	}
	return nil
}

// moveAll carries moves out, and takes up to want jobs with the last of them. refused is what Redis
// said of a move that it did not carry out.
func (f *fetcher) moveAll(ctx context.Context, moves []move, want int) (refused, err error) {
	for {
		c := &call{moves: moves[:min(len(moves), moveMost)]}
		moves = moves[len(c.moves):]
		if len(moves) == 0 {
			c.want = want
		}
		if len(c.moves) == 0 && c.want == 0 && len(f.back) == 0 {
			return refused, nil
		}
		if err := f.do(ctx, c); errors.As(err, new(errRefused)) {
			refused = err
		} else if err != nil {
			return nil, err
		}
		if len(moves) == 0 {
			return refused, nil
		}
	}
}

// do makes a call, or repeats it. An error of type errRefused tells that one of its moves was not
// carried out; after any other error the call is pending.
func (f *fetcher) do(ctx context.Context, c *call) error {
	if c.number == 0 {
		for _, j := range f.back {
			c.moves = append([]move{{job: j, kind: "q", text: j.payload}}, c.moves...)
		}
		c.back = len(f.back)
		if c.want > 0 {
			c.wants = f.env.Queues.Wants(c.want, f.rand)
			c.paid = f.takePaid()
		}
		f.number++
		c.number = f.number
	}
	f.pending = c
	reply, err := f.send(ctx, c)
	if forgot(err) {
		if err = f.restore(ctx); err == nil {
			reply, err = f.send(ctx, c)
		}
	}
	if err != nil {
		return err
	}
	f.pending = nil
	return f.apply(c, reply)
}

func forgot(err error) bool { return err != nil && strings.Contains(err.Error(), "FORGOT ") }

// send sends a call.
func (f *fetcher) send(ctx context.Context, c *call) ([]string, error) {
	now := time.Now()
	args := make([]any, script.Free, script.Free+16+4*len(f.queues)+6*len(c.moves))
	args = append(args, 4+4*len(f.queues), f.call, f.names.failed(), f.names.queue(f.s.Relay), f.names.tokens(f.s.Relay))
	for _, q := range f.queues {
		args = append(args, f.names.queue(q), f.names.delayed(q), f.names.reserved(q), f.names.tokens(q))
	}
	known := "0"
	if f.opened {
		known = "1"
	}
	args = append(args, c.number, known, int(callTime.Seconds()), seconds(now), seconds(now.Add(f.env.Lease)), c.want, f.env.Bytes, len(c.moves))
	for i := range c.moves {
		m := &c.moves[i]
		args = append(args, m.kind, m.job.queue, m.job.copy, m.text, strconv.FormatFloat(m.score, 'f', -1, 64), m.trim.Text())
	}
	for _, w := range c.wants {
		if q := slices.Index(f.queues, w.Queue); q >= 0 && !f.signals.paused[w.Queue] {
			args = append(args, q, w.N, c.paid[q], f.beginRow(w.Queue))
		}
	}
	return exchangeScript.Flat(ctx, f.rdb, args)
}

// apply notes what a call has done.
func (f *fetcher) apply(c *call, reply []string) (err error) {
	if len(reply) < len(c.moves) {
		return fmt.Errorf("laravel: the reply of a call has %d parts, expected %d or more", len(reply), len(c.moves))
	}
	lost := false
	f.back = nil
	for i := range c.moves {
		m, said := &c.moves[i], reply[i]
		refused := strings.HasPrefix(said, "!")
		switch {
		case refused && i < c.back:
			f.back = append([]*reservation{m.job}, f.back...)
		case refused:
			err = errRefused(said[1:])
		case i < c.back:
		default:
			delete(f.held, m.job.receipt)
			if said == "n" {
				lost = true
			} else if m.kind != "a" {
				f.known[m.job.receipt] = fetch.Moved
			}
		}
	}
	if lost {
		f.fence()
	}
	failed := false
	for rest := reply[len(c.moves):]; len(rest) >= 3; {
		kind, text := rest[0], rest[2]
		queue, _ := strconv.Atoi(rest[1])
		switch kind {
		case "u":
			at, _ := strconv.Atoi(rest[3])
			length, _ := strconv.Atoi(rest[4])
			pad, _ := strconv.Atoi(rest[6])
			copied := text[:at] + rest[5] + text[at+length:] + strings.Repeat(" ", pad)
			f.unit(queue, []byte(text), copied)
			rest = rest[7:]
			continue
		case "b":
			f.stash = append(f.stash, fetch.Unit{Queue: f.queues[queue], Payload: []byte(text), Incarnation: f.inc})
		case "e":
			f.report(queue, text)
			failed = true
		}
		rest = rest[3:]
	}
	if c.want > 0 && !failed {
		clear(f.unreadable)
	}
	return err
}

// renew extends the lease of the reserved jobs.
func (f *fetcher) renew(ctx context.Context) error {
	jobs := f.sorted()
	if len(jobs) == 0 && !f.opened {
		return nil
	}
	now := time.Now()
	keys, args := f.reserved(jobs, int(callTime.Seconds()), seconds(now.Add(f.env.Lease)))
	lost, err := renewScript.Run(ctx, f.rdb, keys, args...).Int64Slice()
	if forgot(err) {
		err = f.restore(ctx)
	}
	if err != nil {
		return err
	}
	f.renewed = now
	for _, i := range lost {
		delete(f.held, jobs[i].receipt)
	}
	if len(lost) > 0 {
		f.fence()
	}
	return nil
}

// reserved are the keys and arguments of the scripts that touch all that is held.
func (f *fetcher) reserved(jobs []*reservation, args ...any) ([]string, []any) {
	keys := []string{f.call}
	for _, q := range f.queues {
		keys = append(keys, f.names.reserved(q))
	}
	for _, j := range jobs {
		args = append(args, j.queue, j.copy)
	}
	return keys, args
}

// restore writes the jobs in hand back into a Redis that has lost its data. If the last renewal is so long ago
// that the record of the last call has expired in Redis, others have taken the jobs over.
func (f *fetcher) restore(ctx context.Context) error {
	now := time.Now()
	jobs := f.sorted()
	if !f.renewed.IsZero() && now.Sub(f.renewed.Round(0)) > callTime/2 {
		f.fence()
		f.back, jobs = nil, nil
	}
	keys, args := f.reserved(jobs, f.number-1, int(callTime.Seconds()), seconds(now.Add(f.env.Lease)))
	if err := restoreScript.Run(ctx, f.rdb, keys, args...).Err(); err != nil {
		return err
	}
	f.renewed = now
	f.env.Logger.Warn().Int("jobs", len(jobs)).Msg("redis has lost its data: what is in progress was written back")
	return nil
}
