package job

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/script"
)

// Fields of a payload.
const (
	batchField    = "t_batch"    // ID:INDEX of the batch that the job belongs to
	callbackField = "t_callback" // ID:EVENT of the batch whose callback it is
)

// BatchHead is the head of scripts that know batches.
//
//go:embed batch.lua
var BatchHead string

//go:embed joinbatch.lua
var joinSource string

//go:embed countbatch.lua
var countSource string

var (
	joinScript  = script.New("job.joinbatch", JoinSource())
	countScript = script.New("job.countbatch", CountSource())
)

const callHead = `local call, pcall = redis.call, redis.pcall
local function text(reply) return type(reply) == 'table' and reply.err or nil end
`

// CountHead is BatchHead behind what it stands behind.
func CountHead() string { return callHead + BatchHead }

// JoinSource is the whole script joinbatch.
func JoinSource() string { return CountHead() + joinSource }

// CountSource is the whole script countbatch.
func CountSource() string { return CountHead() + countSource }

// InBatch is the place of a job in a batch.
type InBatch struct {
	ID    string
	Index uint32
}

// String is the value of the field.
func (in InBatch) String() string { return in.ID + ":" + strconv.FormatUint(uint64(in.Index), 10) }

// BatchOf is the place of a job in its batch; false if it belongs to none.
func BatchOf(p *troupe.Payload) (in InBatch, ok bool) {
	text, _ := p.String(batchField)
	return ParseInBatch(text)
}

// ParseInBatch reads ID:INDEX.
func ParseInBatch(text string) (in InBatch, ok bool) {
	id, index, ok := splitLast(text)
	n, err := strconv.ParseUint(index, 10, 32)
	if !ok || id == "" || err != nil {
		return InBatch{}, false
	}
	return InBatch{id, uint32(n)}, true
}

func splitLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// MayBatch tells by a look at its bytes whether a job may belong to a batch.
func MayBatch(raw []byte) bool { return bytes.Contains(raw, []byte(batchField)) }

// CallbackOf is the batch whose callback the job is, and of which event; "" if it is none.
func CallbackOf(p *troupe.Payload) (batch, event string) {
	text, _ := p.String(callbackField)
	batch, event, _ = splitLast(text)
	return batch, event
}

// BatchEvent is what is counted of a job in its batch.
type BatchEvent string

const (
	BatchRan  BatchEvent = "ran"  // a run has ended, and it is to run again
	BatchDone BatchEvent = "done" // nothing is to be done for it any more
	BatchDied BatchEvent = "died" // it has failed for good
	BatchWait BatchEvent = "wait" // it runs later, without having failed
)

// Count is what the move of a job counts in its batch.
type Count struct {
	InBatch
	Event BatchEvent
	Due   float64 // when the job runs again, in seconds; 0 if that is soon
}

// Join is a batch that pushes enter.
type Join struct {
	ID     string
	Fields []any  // names and values of a new batch; nil of one that is there
	Parent string // ID of the batch that this one is a job of, "" for none
	Open   bool   // it may not end yet when all has entered
}

// Begun appends the arguments of a join in front of the jobs. The last one says what shut of batch.lua does.
func (j *Join) Begun(args []any, last bool) []any {
	how := ""
	switch {
	case last && j.Open:
		how = "open"
	case last:
		how = "close"
	}
	return append(append(args, j.Parent, how, j.ID, len(j.Fields)), j.Fields...)
}

// Joins appends those of a job.
func Joins(args []any, p *Push) []any {
	return append(args, p.Queue, p.Score, bytes.TrimSuffix(p.Payload, []byte("}")))
}

// joinMemory is how long a repeated call is known.
const joinMemory = 10 * time.Minute

// JoinBatch pushes jobs into a batch, with the given number of the calls of token. The last one says so. What is sent again does
// nothing again. Beside an error of Redis it returns why it was refused; see joinbatch.lua.
func JoinBatch(ctx context.Context, rdb redis.UniversalClient, j *Join, token string, number int, last bool, jobs []Push) (refused string, err error) {
	args := j.Begun(append(make([]any, 0, 3*len(jobs)+len(j.Fields)+6), number, joinMemory.Milliseconds()), last)
	for i := range jobs {
		args = Joins(args, &jobs[i])
	}
	return joinScript.Run(ctx, rdb, []string{keys.Batch(j.ID), keys.Pushed(token)}, args...).Text()
}

// Counted is what is counted of jobs of one batch.
type Counted struct {
	ID      string
	Event   BatchEvent
	Due     float64 // the latest of theirs
	Indexes []any
}

// AddCount adds c to what is counted of its batch and event.
func AddCount(all []Counted, c Count) []Counted {
	i := slices.IndexFunc(all, func(o Counted) bool { return o.ID == c.ID && o.Event == c.Event })
	if i < 0 {
		i, all = len(all), append(all, Counted{ID: c.ID, Event: c.Event})
	}
	all[i].Due, all[i].Indexes = max(all[i].Due, c.Due), append(all[i].Indexes, c.Index)
	return all
}

// CountBatch counts jobs in their batches in a step of its own.
func CountBatch(ctx context.Context, rdb redis.UniversalClient, counts ...Count) error {
	var all []Counted
	for _, c := range counts {
		all = AddCount(all, c)
	}
	for _, c := range all {
		for indexes := range slices.Chunk(c.Indexes, 1000) {
			args := append([]any{c.ID, string(c.Event)}, indexes...)
			if err := countScript.Run(ctx, rdb, []string{keys.Batch(c.ID)}, args...).Err(); err != nil {
				return fmt.Errorf("count jobs of batch %s: %w", c.ID, err)
			}
		}
	}
	return nil
}

// CloseBatch lets a batch end, and CancelBatch has its callbacks not be fired and its waiting jobs not be run. False if it is not there, or
// has succeeded.
func CloseBatch(ctx context.Context, rdb redis.UniversalClient, id string) (bool, error) {
	return changeBatch(ctx, rdb, id, "close")
}

// CancelBatch is described with CloseBatch. The batches within it follow, each in a step of its own.
func CancelBatch(ctx context.Context, rdb redis.UniversalClient, id string) (bool, error) {
	done, err := changeBatch(ctx, rdb, id, "cancel")
	for cursor := uint64(0); done && err == nil; {
		var below []string
		if below, cursor, err = rdb.SScan(ctx, keys.BatchChildren(id), cursor, "", 100).Result(); err != nil {
			return true, fmt.Errorf("cancel the batches within batch %s: %w", id, err)
		}
		for _, child := range below {
			if _, err = CancelBatch(ctx, rdb, child); err != nil {
				return true, err
			}
		}
		if cursor == 0 {
			break
		}
	}
	return done, err
}

func changeBatch(ctx context.Context, rdb redis.UniversalClient, id, how string) (bool, error) {
	done, err := countScript.Run(ctx, rdb, []string{keys.Batch(id)}, id, how).Bool()
	if err != nil {
		return false, fmt.Errorf("%s batch %s: %w", how, id, err)
	}
	return done, nil
}
