package bulk

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/scores"
)

// Line is a job of an export: its place, and its exact bytes.
type Line struct {
	Set    string  `json:"set,omitempty"`        // retry, scheduled or dead
	Score  string  `json:"score,omitempty"`      // in the set, exact
	Queue  string  `json:"queue,omitempty"`      // bare name, of a job of a queue
	Job    *string `json:"job,omitempty"`        // the bytes, or
	Base64 []byte  `json:"job_base64,omitempty"` // bytes that are not UTF-8
	Masked bool    `json:"masked,omitempty"`     // what is secret is not there: it cannot be imported
}

// Put notes the bytes of a job, or what masking has left of them.
func (l *Line) Put(raw string, masked bool) {
	if l.Masked = masked; utf8.ValidString(raw) {
		l.Job = &raw
	} else {
		l.Base64 = []byte(raw)
	}
}

// raw are the bytes of the job.
func (l *Line) raw() string {
	if l.Job != nil {
		return *l.Job
	}
	return string(l.Base64)
}

// parseLine reads and checks a line.
func parseLine(text []byte) (l Line, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil || d.More() || !utf8.Valid(text) {
		return l, fmt.Errorf("got %.100q, expected one object of an export (%w)", text, cmp.Or(err, errLine))
	}
	score, scoreErr := strconv.ParseFloat(l.Score, 64)
	for _, c := range []struct {
		fine               bool
		field, value, want string
	}{
		{!l.Masked, "masked", "true", "a line of an export with --args show"},
		{(l.Set == "") != (l.Queue == ""), "set", l.Set, "a set, or a queue, and not both: queue is " + strconv.Quote(l.Queue)},
		{l.Set == "" || slices.Contains(Sets, l.Set), "set", l.Set, "one of " + strings.Join(Sets, ", ")},
		{l.Set == "" || scoreErr == nil && !math.IsNaN(score), "score", l.Score, "a number"},
		{(l.Job == nil) != (l.Base64 == nil), "job", l.raw(), "the bytes, there or in job_base64"},
	} {
		if !c.fine {
			return l, fmt.Errorf("%s is %.100q, expected %s", c.field, c.value, c.want)
		}
	}
	l.Score = scores.Format(score)
	return l, nil
}

var errLine = errors.New("there is more than one, or it is not UTF-8")

// Lines reads an export. A line that is none is an error with its number.
func Lines(r io.Reader) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		in := bufio.NewReader(r)
		for n := 1; ; n++ {
			text, end := in.ReadBytes('\n')
			if text = bytes.TrimSpace(text); len(text) > 0 {
				l, err := parseLine(text)
				if err != nil {
					err = fmt.Errorf("line %d: %w", n, err)
				}
				if !yield(l, err) {
					return
				}
			}
			if end != nil {
				if !errors.Is(end, io.EOF) {
					yield(Line{}, end)
				}
				return
			}
		}
	}
}

// Import puts the jobs of an export back, rate a second at most, and calls progress after each. What
// is there already is Gone: of a set by the bytes, of a queue as often as it stood there when the
// import came to the queue. The end of ctx, or an error of lines, ends it between two of them. The
// counts hold after an error, too.
func Import(ctx context.Context, rdb redis.UniversalClient, i *inspect.Inspector, lines iter.Seq2[Line, error], rate int, progress func(Counts)) (c Counts, err error) {
	began := time.Now()
	in := importer{rdb, i, map[string]map[[16]byte]int{}}
	defer func() {
		if c.Done > 0 { // for whoever waits for the next one due
			_ = rdb.Publish(context.WithoutCancel(ctx), keys.Wakeup, 1).Err()
		}
	}()
	for l, fault := range lines {
		if fault != nil {
			return c, fault
		}
		done, err := in.one(ctx, &l)
		switch {
		case err != nil && inspect.IsFault(err):
			c.leave(err)
		case err != nil:
			return c, err
		case done:
			c.Done++
		default:
			c.Gone++
		}
		progress(c)
		if err := slow(ctx, began, c.Sum(), rate); err != nil {
			return c, err
		}
	}
	return c, nil
}

// importer is an import under way.
type importer struct {
	rdb       redis.UniversalClient
	inspector *inspect.Inspector
	there     map[string]map[[16]byte]int // how often, by queue and digest
}

// one imports one job, if it is not there.
func (i *importer) one(ctx context.Context, l *Line) (done bool, err error) {
	if l.Set != "" {
		n, err := i.rdb.Do(context.WithoutCancel(ctx), "zadd", SetOf(i.inspector, l.Set).Name, "nx", l.Score, l.raw()).Int()
		return n > 0, err
	}
	if i.there[l.Queue] == nil {
		there := map[[16]byte]int{}
		for job, err := range i.inspector.Queue(l.Queue).Each(ctx) {
			if err != nil {
				return false, err
			}
			there[digest(job.Raw)]++
		}
		i.there[l.Queue] = there
	}
	if d := digest(l.raw()); i.there[l.Queue][d] > 0 {
		i.there[l.Queue][d]--
		return false, nil
	}
	key := keys.Queue(l.Queue)
	if name, ok := strings.CutSuffix(l.Queue, keys.SuspectsSuffix); ok && redisconn.OnCluster(i.rdb) {
		key = keys.ClusterSuspects(name)
	}
	pipe := i.rdb.Pipeline()
	pushed := pipe.LPush(ctx, key, l.raw())
	pipe.SAdd(ctx, keys.Queues, l.Queue)         // a list for people: the job is there without
	_, _ = pipe.Exec(context.WithoutCancel(ctx)) // pushed tells
	return true, pushed.Err()
}

func digest(raw string) [16]byte {
	sum := sha256.Sum256([]byte(raw))
	return [16]byte(sum[:16])
}
