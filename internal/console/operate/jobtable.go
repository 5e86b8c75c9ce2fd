package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/explain"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/words"
)

// job is a row of a list of jobs.
type job struct {
	When  *time.Time      `json:"when"`            // due, of death, since when it waits or runs
	Score string          `json:"score,omitempty"` // in a set where that is no time
	Class string          `json:"class"`
	JID   string          `json:"jid"`
	Queue string          `json:"queue"`
	Tries int             `json:"tries"` // failures so far
	Error string          `json:"error,omitempty"`
	Args  json.RawMessage `json:"args"`
	Tags  []string        `json:"tags,omitempty"`

	Progress *explain.Progress `json:"progress,omitempty"` // of an iterable job that has begun, and of one that runs and tells it
}

// moment is a time in JSON, nil for none.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// jobTable prints jobs. How far those have come that are iterable it asks Redis for many at once.
type jobTable struct {
	ctx context.Context //nolint:containedctx // of the one list
	s   *cli.Session
	*cli.Table
	waiting []jobRow // that are not printed yet
	err     error    // the first one
}

// jobRow is a job that is to be printed.
type jobRow struct {
	when  time.Time
	score float64
	told  *inspect.Progress // of one that runs
	*inspect.JobRecord
}

// atOnce is how many rows are printed at once.
const atOnce = 100

func newJobTable(ctx context.Context, s *cli.Session) *jobTable {
	t := &jobTable{ctx: ctx, s: s}
	if !s.JSON {
		t.Table = s.Table("WHEN", "CLASS", "JID", "QUEUE", "TRY", "ERROR", "ARGS", "PROGRESS")
	}
	return t
}

// widest is how many characters of an error or of arguments stand in a table.
const widest = 80

func (t *jobTable) row(when time.Time, score float64, r *inspect.JobRecord) {
	t.add(jobRow{when, score, nil, r})
}

func (t *jobTable) add(r jobRow) {
	if t.waiting = append(t.waiting, r); len(t.waiting) == atOnce {
		t.print()
	}
}

// print prints the rows that wait.
func (t *jobTable) print() {
	jids := make([]string, len(t.waiting))
	for i, r := range t.waiting {
		jids[i] = r.JID
	}
	its, err := t.s.Inspector.Iterations(t.ctx, jids...)
	if t.err = cmp.Or(t.err, err); t.err == nil {
		for i, r := range t.waiting {
			t.one(r.when, r.score, r.JobRecord, explain.ProgressOf(&its[i], r.told, t.s.Mask))
		}
	}
	t.waiting = t.waiting[:0]
}

func (t *jobTable) one(when time.Time, score float64, r *inspect.JobRecord, progress *explain.Progress) {
	sum := t.s.Mask.Summary(r)
	args := sum.Args
	message := strings.TrimSuffix(sum.ErrorClass+": "+sum.ErrorMessage, ": ")
	if t.s.JSON {
		row := job{When: moment(when), Class: sum.Class, JID: r.JID, Queue: r.Queue, Tries: r.Payload.Failures(), Error: message, Args: args, Tags: sum.Tags, Progress: progress}
		if when.IsZero() && score != 0 {
			row.Score = strings.TrimPrefix(scores.Words(score), "score ")
		}
		if row.Args == nil {
			row.Args = json.RawMessage("null")
		}
		t.err = cmp.Or(t.err, t.s.PrintJSON(row)) // Flush tells
		return
	}
	moment := words.At(when)
	if when.IsZero() && score != 0 {
		moment = scores.Words(score)
	}
	fields := []string{moment, shorten(sum.Class), shorten(r.JID), shorten(r.Queue), number(r.Payload.Failures()), shorten(message), shorten(string(args))}
	if progress != nil || t.s.Terminal { // few jobs have one: into a pipe it is no field that is always empty
		fields = append(fields, shorten(progress.String()))
	}
	t.Row(fields...)
}

// Flush prints what is left.
func (t *jobTable) Flush() error {
	t.print()
	if t.Table == nil || t.err != nil {
		return t.err
	}
	return t.Table.Flush()
}

func shorten(text string) string {
	if r := []rune(text); len(r) > widest {
		return string(r[:widest]) + "…"
	}
	return text
}
