package demo

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
)

const (
	// maxBacklog is how many jobs may wait in the queues before the producer
	// waits, too: the memory of an embedded Redis is ours.
	maxBacklog = 5000

	producerTick = 10 * time.Millisecond
	panicEvery   = 5 * time.Second
	longEvery    = 25 * time.Second
	longMillis   = 20_000
)

// producer pushes the load of the demo until it is told to end.
type producer struct {
	client   *client.Client
	measures *measures
	census   *census
	log      zerolog.Logger
	run      string
	rate     int // jobs a second
}

// work pushes until ctx ends. What the rate demands and Redis or a full queue
// did not allow is not made up for.
func (p *producer) work(ctx context.Context) {
	p.push(ctx, unresponsive{p.run}, queueBatch)
	ticker := time.NewTicker(producerTick)
	defer ticker.Stop()
	start := time.Now()
	last, nextLong, nextPanic := start, start, start.Add(time.Second)
	due := 0.0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		due = min(due+float64(p.rate)*now.Sub(last).Seconds(), float64(p.rate)/4+1)
		last = now
		full := p.census.latest().Enqueued >= maxBacklog
		p.measures.full.Store(full)
		if full {
			due = 0
			continue
		}
		if now.After(nextLong) {
			nextLong = now.Add(longEvery)
			p.push(ctx, long{p.run, longMillis}, queueBatch)
		}
		if now.After(nextPanic) {
			nextPanic = now.Add(panicEvery)
			p.push(ctx, panics{}, queueDefault, client.Retry(1))
		}
		for ; due >= 1 && ctx.Err() == nil; due-- {
			if !p.pushOne(ctx, now) {
				due = 0
				break
			}
		}
	}
}

// pushOne draws one job of the mix.
func (p *producer) pushOne(ctx context.Context, now time.Time) bool {
	switch roll := rand.IntN(100); {
	case roll < 30:
		return p.push(ctx, quick{1 + rand.IntN(20)}, queueCritical)
	case roll < 85:
		return p.push(ctx, quick{1 + rand.IntN(20)}, queueDefault)
	case roll < 88:
		return p.push(ctx, slow{200 + rand.IntN(800)}, queueDefault)
	case roll < 95:
		due := now.Add(time.Second + rand.N(5*time.Second))
		return p.push(ctx, scheduled{due.UnixMicro()}, queueDefault, client.At(due))
	default:
		return p.push(ctx, flaky{1 + rand.IntN(2)}, queueDefault, client.Retry(3))
	}
}

// push pushes one job. An error is counted and logged; it is not repeated, since
// the job may be in Redis all the same.
func (p *producer) push(ctx context.Context, args troupe.Args, queue string, opts ...client.Option) bool {
	_, err := p.client.Push(ctx, args, append(opts, client.Queue(queue))...)
	switch {
	case err == nil:
		p.measures.pushed.Add(1)
		return true
	case ctx.Err() == nil:
		p.measures.unpushed.Add(1)
		p.log.Warn().Err(err).Msg("the producer could not push")
	}
	return false
}
