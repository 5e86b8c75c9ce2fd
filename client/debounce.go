package client

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"strconv"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/script"
)

// debounced is how pushes of a key become one job.
type debounced struct {
	key       string
	wait, max time.Duration
}

// debounceMemory is how long beyond its time a job is found that nobody has promoted, and a push that is repeated.
const debounceMemory = 10 * time.Minute

// Debounce makes one job of many pushes of a class with the same key: it is due wait after the last of them, with the
// arguments and options of that one. The job is due at most max after the first push, however many follow; with a max
// of 0 it is put off by each. A push after that, when the job has gone to its queue or was deleted, begins anew. So
// there is always a run that begins after the last push.
//
// Each push returns the jid of the first, which is that of the job. One script replaces the job in the set "schedule": a
// reply that is lost makes no second job.
//
// It stands in the place of At and In. It is for a single push at once: not for bulks and chains, for unique jobs, and for
// Within. A client WithBuffer does not buffer it: while Redis is away the push fails.
func Debounce(key string, wait, max time.Duration) Option { //nolint:predeclared // the longest wait
	return func(o *options) {
		switch {
		case key == "":
			o.fail(&FieldError{"Debounce", `the key ""`, "a name of what is done once"})
		case wait <= 0:
			o.fail(&FieldError{"Debounce", "a wait of " + wait.String(), "a time above 0"})
		case max != 0 && max < wait:
			o.fail(&FieldError{"Debounce", "a max of " + max.String(), "0, or " + wait.String() + " at least, which is the wait"})
		}
		o.time("Debounce", func(now time.Time) time.Time { return now.Add(wait) })
		o.debounce = &debounced{key, wait, max}
	}
}

//go:embed debounce.lua
var debounceSource string

var debounceScript = script.New("client.debounce", debounceSource)

// single reports what a job with these options cannot be part of, if its push is debounced.
func (o *options) single(what string) error {
	if o.debounce == nil {
		return nil
	}
	return &FieldError{"Debounce", "it for " + what, "a single push that is made at once"}
}

// checkDebounce reports whether a single push through c may be debounced as o says.
func (c *Client) checkDebounce(o *options) error {
	switch {
	case o.debounce == nil:
		return nil
	case c.kept != nil:
		return o.single("client.Within")
	case c.taking != nil:
		return o.single("an outbox")
	case o.unique != nil:
		return &FieldError{"Debounce", "it for a unique job", "one of both: of a type that is unique, with NotUnique"}
	}
	return nil
}

// sendDebounced pushes a valid payload that is debounced, and returns the jid of the job.
func (c *Client) sendDebounced(ctx context.Context, p *troupe.Payload, d *debounced, now time.Time) (string, error) {
	e, _, err := c.seal(ctx, p, now)
	if err == nil && e.lock != nil {
		err = &MiddlewareError{&FieldError{"Debounce", "a unique job", "one of both"}}
	}
	if err != nil {
		return "", err
	}
	if p, err = troupe.ParsePayload(e.raw); err != nil {
		return "", err
	}
	jid, _ := p.Get("jid")
	number := job.NewID()
	p.SetString("jid", number) // a text that occurs nowhere else
	before, behind, _ := bytes.Cut(p.Bytes(), strconv.AppendQuote(nil, number))
	due := cmp.Or(e.score, scores.Format(scores.Of(now))) // middleware may have taken it away
	reply, err := debounceScript.Run(ctx, c.rdb, []string{keys.Schedule, keys.Debounce(p.Class(), d.key)},
		number, []byte(jid), scores.Format(scores.Of(now)), due, d.max.Seconds(), before, behind, debounceMemory.Milliseconds()).Text()
	if err != nil {
		return "", unavailable(err, !redisconn.NotSent(err))
	}
	var got troupe.Payload
	got.Set("jid", []byte(reply))
	return cmp.Or(got.JID(), reply), nil
}
