package beat

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/script"
)

const (
	dayTTL     = 5 * 365 * 24 * time.Hour // of a day's totals
	receiptTTL = 24 * time.Hour           // how long an unanswered Flush is remembered
)

//go:embed flush.lua
var flushSource string

var flushScript = script.New("beat.flush", flushSource)

// Counts are jobs that ended since the last Flush.
type Counts struct {
	Processed int64 // all of them
	Failed    int64 // those of them that failed
}

func (c Counts) plus(d Counts) Counts {
	return Counts{Processed: c.Processed + d.Processed, Failed: c.Failed + d.Failed}
}

// Flusher adds counts to Sidekiq's totals, each exactly once.
//
// A MULTI whose reply is lost may have been carried out. Sending it again might
// count twice, dropping it might not count at all, so a Flusher does neither:
// it sends counts in numbered batches, and the number of the last batch stands
// in a key that the same atomic step writes. A batch without an answer is sent
// again, unchanged, until Redis says that it has it; what is counted meanwhile
// waits behind it. (Not on a cluster, where the keys have no common slot: there
// a batch whose reply was lost may count twice.)
//
// One goroutine at a time may use it.
type Flusher struct {
	identity string
	batch    int64
	day      string // of the batch
	sent     Counts // the batch, as long as Redis has not answered
	waiting  Counts // behind it
}

// NewFlusher makes the one Flusher of a process.
func NewFlusher(identity string) *Flusher { return &Flusher{identity: identity} }

// Flush adds c and whatever earlier calls could not deliver. It takes c over
// also when it fails: the caller starts at zero again and must not pass c a
// second time. The day's totals go to the UTC day of now, the day of the flush.
// With nothing to add it does not touch Redis.
func (f *Flusher) Flush(ctx context.Context, rdb redis.UniversalClient, c Counts, now time.Time) error {
	f.waiting = f.waiting.plus(c)
	if f.sent != (Counts{}) {
		if err := f.send(ctx, rdb); err != nil {
			return err
		}
	}
	if f.waiting == (Counts{}) {
		return nil
	}
	f.batch++
	f.day = now.UTC().Format(time.DateOnly)
	f.sent, f.waiting = f.waiting, Counts{}
	return f.send(ctx, rdb)
}

// Pending returns what is not yet known to be in Redis, for the log at exit.
func (f *Flusher) Pending() Counts { return f.sent.plus(f.waiting) }

func (f *Flusher) send(ctx context.Context, rdb redis.UniversalClient) error {
	stats := []string{
		keys.StatProcessed, keys.StatProcessed + ":" + f.day,
		keys.StatFailed, keys.StatFailed + ":" + f.day,
	}
	var err error
	if redisconn.OnCluster(rdb) {
		_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, n := range []int64{f.sent.Processed, f.sent.Failed} {
				p.IncrBy(ctx, stats[2*i], n)
				p.IncrBy(ctx, stats[2*i+1], n)
				p.Expire(ctx, stats[2*i+1], dayTTL)
			}
			return nil
		})
	} else {
		err = flushScript.Run(ctx, rdb, append([]string{keys.Flushed(f.identity)}, stats...),
			f.batch, int(receiptTTL.Seconds()), f.sent.Processed, f.sent.Failed, int(dayTTL.Seconds())).Err()
	}
	if err != nil {
		return fmt.Errorf("flush stats: %w", err)
	}
	f.sent = Counts{}
	return nil
}
