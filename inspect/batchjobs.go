package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/words"
)

// BatchJobs tells where those jobs of a batch are that are not done.
type BatchJobs struct {
	// Places is how many are where: in "queue:NAME", "scheduled", "retry", "held", "in progress" or "dead".
	Places map[string]int64

	Dead    []*SortedEntry // the first 100 of them
	Batches int64          // jobs that are batches, and have not ended

	// TooLong is how many jobs of Redis are too long to tell whether they belong to a batch: they may be among the missing.
	TooLong int64

	// Missing is how many are nowhere: Ruby has run or deleted them, they have fallen out of the dead set, or Redis has lost them. The batch
	// waits for them until they are counted out: see Batch.CountOut.
	Missing   int64
	MissingAt []uint32 // the indexes of the first 100 of them

	missing []byte // a bit for each
}

// ErrTooManyJobs tells that Redis has more jobs than are looked at.
var ErrTooManyJobs = errors.New("too many jobs")

// batchBits bounds the jobs of the batches that are looked at together: each takes a bit.
const batchBits = 1 << 28

// batchDead is how many dead or missing jobs of a batch are told.
const batchDead = 100

// FindBatchJobs looks for the jobs of batches that have not ended, among all jobs, once for all of them. A job that moves may be missed only
// while a stop, a rescue or a limit puts it back; one that Ruby has just taken is nowhere until its next heartbeat. So what is missing
// may not be: look twice. The result has no entry for batches that have ended. If Redis has more than most jobs, and most is not 0, nothing
// is looked at, and the error is ErrTooManyJobs.
func (i *Inspector) FindBatchJobs(ctx context.Context, most int64, batches ...*Batch) (map[string]*BatchJobs, error) {
	looks := map[string]*look{}
	total, long := int64(0), map[string]bool{}
	for _, b := range batches {
		if !b.Ended() && b.Pending > 0 {
			looks[b.ID] = &look{b: b, jobs: &BatchJobs{Places: map[string]int64{}}}
			total += b.Total
		}
	}
	if len(looks) == 0 {
		return nil, nil
	}
	stats, err := i.Stats(ctx)
	if n := stats.Enqueued + stats.ScheduledSize + stats.RetrySize + stats.DeadSize + stats.HeldSize; err == nil && most > 0 && n > most {
		err = fmt.Errorf("%w: there are %s, and at most %s are looked at", ErrTooManyJobs, words.Plural(n, "job"), words.Count(most))
	}
	if err == nil && total > batchBits {
		err = fmt.Errorf("%w: these batches have %s", ErrTooManyJobs, words.Plural(total, "job"))
	}
	if err == nil {
		err = i.begin(ctx, looks)
	}
	if err == nil {
		err = i.eachJob(ctx, func(place, jid string, r *JobRecord, e *SortedEntry) bool {
			in, ok := job.BatchOf(r.Payload)
			if !ok && r.Cut() && !strings.Contains(r.text.tail, `"created_at":`) { // its field stands behind that
				long[jid] = true
			}
			if l := looks[in.ID]; ok && l != nil && l.found(in.Index) {
				if l.jobs.Places[place]++; place == "dead" && len(l.jobs.Dead) < batchDead {
					l.jobs.Dead = append(l.jobs.Dead, e)
				}
			}
			return true
		})
	}
	if err == nil {
		err = i.doneOf(ctx, looks) // what has ended meanwhile
	}
	if err != nil {
		return nil, fmt.Errorf("look for the jobs of batches: %w", err)
	}
	all := map[string]*BatchJobs{}
	for id, l := range looks {
		l.end()
		l.jobs.TooLong = int64(len(long))
		all[id] = l.jobs
	}
	return all, nil
}

// look is a search for the jobs of a batch.
type look struct {
	b    *Batch
	jobs *BatchJobs
	left []byte // a bit for each job that is pending, and was not found yet; the first job has the highest bit
}

// found notes that a job was met; false if it is not looked for.
func (l *look) found(index uint32) bool {
	at, bit := int(index/8), byte(0x80)>>(index%8)
	if at >= len(l.left) || l.left[at]&bit == 0 {
		return false
	}
	l.left[at] &^= bit
	return true
}

// begin reads which jobs are pending, and which of these are batches.
func (i *Inspector) begin(ctx context.Context, looks map[string]*look) error {
	for _, l := range looks {
		l.left = slices.Repeat([]byte{0xff}, int((l.b.Total+7)/8))
		if spare := l.b.Total % 8; spare > 0 {
			l.left[len(l.left)-1] = ^byte(0xff >> spare)
		}
	}
	if err := i.doneOf(ctx, looks); err != nil {
		return err
	}
	for id, l := range looks {
		ids, err := i.members(ctx, keys.BatchChildren(id))
		for page := range slices.Chunk(ids, childrenShown) {
			var children []*Batch
			if err == nil {
				children, err = i.batches(ctx, page, false)
			}
			for _, c := range children {
				if c.Parent == id && !c.Ended() && l.found(c.index) {
					l.jobs.Batches++
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// doneOf takes those out that are done.
func (i *Inspector) doneOf(ctx context.Context, looks map[string]*look) error {
	for id, l := range looks {
		done, err := i.db().Get(ctx, keys.BatchDone(id)).Result()
		if err != nil && !absent(err) {
			return err
		}
		for n := range min(len(done), len(l.left)) {
			l.left[n] &^= done[n]
		}
	}
	return ctx.Err()
}

// end counts what was not found.
func (l *look) end() {
	l.jobs.missing = l.left
	for n, b := range l.left {
		l.jobs.Missing += int64(bits.OnesCount8(b))
		for ; b != 0 && len(l.jobs.MissingAt) < batchDead; b &^= 0x80 >> bits.LeadingZeros8(b) {
			l.jobs.MissingAt = append(l.jobs.MissingAt, uint32(8*n+bits.LeadingZeros8(b)))
		}
	}
	slices.SortStableFunc(l.jobs.Dead, func(a, b *SortedEntry) int { return cmp.Compare(b.Score, a.Score) })
}

// BatchLooks is how far the looks of CountOut are apart at least, for jobs that Ruby runs: it tells of them every 10 s.
const BatchLooks = 15 * time.Second

// CountOut counts the jobs of a batch as done that are nowhere, so that it does not wait for them any more: it may push its callbacks. It looks for
// them twice, so far apart (BatchLooks), and counts those out that it has not met either time. It returns how many they were. It is an error
// if a job was too long to tell its batch.
func (b *Batch) CountOut(ctx context.Context, apart time.Duration) (n int64, err error) {
	first, err := orNone(b.i).FindBatchJobs(ctx, 0, b)
	if err != nil || first[b.ID] == nil || first[b.ID].Missing == 0 {
		return 0, err
	}
	select {
	case <-time.After(apart):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	second, err := b.i.FindBatchJobs(ctx, 0, b)
	if err != nil {
		return 0, err
	}
	if long := max(first[b.ID].TooLong, second[b.ID].TooLong); long > 0 {
		return 0, fmt.Errorf("count out jobs of batch %s: %s too long to tell whether they belong to it", b.ID, words.Plural(long, "job"))
	}
	var counts []job.Count
	send := func() error {
		err := job.CountBatch(ctx, b.i.db(), counts...)
		if err == nil {
			n += int64(len(counts))
		}
		counts = counts[:0]
		return err
	}
	for at, missed := range second[b.ID].missing {
		for missed &= first[b.ID].missing[at]; missed != 0 && err == nil; missed &^= 0x80 >> bits.LeadingZeros8(missed) {
			index := uint32(8*at + bits.LeadingZeros8(missed))
			counts = append(counts, job.Count{InBatch: job.InBatch{ID: b.ID, Index: index}, Event: job.BatchDone})
			if len(counts) == countPage {
				err = send()
			}
		}
	}
	if err == nil {
		err = send()
	}
	if err != nil {
		return n, fmt.Errorf("count out jobs of batch %s: %w", b.ID, err)
	}
	return n, nil
}

// countPage is how many jobs are counted in one step.
const countPage = 1000
