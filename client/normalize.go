package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/wirejson"
)

// maxRetryFor is Sidekiq's limit, in seconds: above it a number is taken for a
// point in time that was passed by mistake.
const maxRetryFor = 1e9

// Prepare makes p ready to enter its queue again, as the daemon's poller does with a member of
// schedule or retry: defaults under what p has, a jid and created_at if missing, client
// middleware, enqueued_at = now. A field "at" is dropped, whoever set it: obeying it would put
// the job back where it came from. p itself may be edited. Nothing is sent.
//
// A job whose class, arguments or tags Sidekiq's client would refuse is let through: what runs
// as it is fetched is retried, too.
//
// The result is nil if middleware stopped the job. A *FieldError says that p names no queue; a
// *MiddlewareError that the middleware, not p, is at fault. Bytes that are not UTF-8 pass, as
// they came.
func (c *Client) Prepare(ctx context.Context, p *troupe.Payload, now time.Time) (*troupe.Payload, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	p.Delete("at")
	for _, f := range c.defaults {
		if _, ok := p.Get(f.key); !ok {
			p = c.reorder(p)
			break
		}
	}
	if err := c.complete(p, c.stamp(now)); err != nil {
		return nil, err
	}
	if c.chain != nil {
		was := p.Clone()
		out, err := c.through(ctx, p)
		if errchain.Is(err, ErrStopped) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if p, err = troupe.ParsePayload(out.Bytes()); err == nil {
			err = rewriteEdits(p, was)
		}
		if err != nil {
			return nil, &MiddlewareError{err}
		}
		p.Delete("at")
		if err := c.check(p); err != nil && c.check(was) == nil {
			return nil, &MiddlewareError{err}
		}
		if err := checkQueue(p); err != nil {
			return nil, &MiddlewareError{err}
		}
	}
	p.SetTime("enqueued_at", now, c.timestamps)
	return p, nil
}

// rewriteEdits brings the fields of p whose text is not that of was into the form
// in which Ruby would write them.
func rewriteEdits(p, was *troupe.Payload) error {
	for key := range p.Keys() {
		text, _ := p.Get(key)
		if before, ok := was.Get(key); ok && bytes.Equal(before, text) {
			continue
		}
		if err := p.SetJSON(key, text); err != nil {
			return err
		}
	}
	return nil
}

// check is the validation of a raw push, see Sidekiq's client.
func (c *Client) check(p *troupe.Payload) error {
	if _, ok := p.String("class"); !ok {
		raw, _ := p.Get("class")
		return &FieldError{"class", wirejson.KindOf(raw), "a string"}
	}
	if args, _ := p.Get("args"); len(args) == 0 || args[0] != '[' {
		return &FieldError{"args", wirejson.KindOf(args), "an array"}
	}
	for _, key := range [...]string{"at", "tags", "retry_for", "t_timeout", "t_deadline", job.ResultField} {
		raw, ok := p.Get(key)
		if !ok {
			continue
		}
		text, err := checkField(key, raw)
		if err != nil {
			return err
		}
		p.Set(key, text)
	}
	return nil
}

// checkField checks the fields that Ruby checks and returns the text to store.
func checkField(key string, raw json.RawMessage) (json.RawMessage, error) {
	falsy := string(raw) == "null" || string(raw) == "false"
	switch key {
	case "queue":
		if s, _ := wirejson.Text(raw); s == "" {
			return nil, &FieldError{"queue", scalar(raw), "a name"}
		}
	case "tags":
		if !falsy && raw[0] != '[' {
			return nil, &FieldError{"tags", wirejson.KindOf(raw), "an array of strings"}
		}
	case "at":
		if at, err := number(raw); err != nil || at < 0 {
			// a negative score cannot be found again by Sidekiq's pages
			return nil, &FieldError{"at", scalar(raw), "a number of seconds since the epoch"}
		}
	case "t_timeout", "t_deadline", job.ResultField, "expires_in":
		if n, err := number(raw); err != nil || n <= 0 {
			return nil, &FieldError{key, scalar(raw), "a number of seconds above 0"}
		}
	case "retry_for":
		if falsy {
			break
		}
		span, err := number(raw)
		if err != nil || span > maxRetryFor {
			return nil, &FieldError{"retry_for", scalar(raw), "a number of seconds up to 1000000000"}
		}
		return strconv.AppendInt(nil, int64(math.Trunc(span)), 10), nil
	}
	return raw, nil
}

// complete checks and names the queue, and adds jid and created_at if they are
// missing or null.
func (c *Client) complete(p *troupe.Payload, now json.RawMessage) error {
	if err := checkQueue(p); err != nil {
		return err
	}
	if err := c.own.check(p.Queue()); err != nil {
		return err
	}
	if missing(p, "jid") {
		p.SetString("jid", job.NewID())
	}
	if missing(p, "created_at") {
		p.Set("created_at", now)
	}
	return nil
}

func checkQueue(p *troupe.Payload) error {
	raw, _ := p.Get("queue")
	if _, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		p.SetString("queue", p.Queue()) // Ruby stringifies it
		return nil
	}
	_, err := checkField("queue", raw)
	return err
}

func missing(p *troupe.Payload, key string) bool {
	raw, ok := p.Get(key)
	return !ok || string(raw) == "null" || string(raw) == "false"
}

// reorder returns p with the default options first and merged under p's own,
// the order in which Ruby merges.
func (c *Client) reorder(p *troupe.Payload) *troupe.Payload {
	q := new(troupe.Payload)
	for _, f := range c.defaults {
		text := f.text
		if own, ok := p.Get(f.key); ok {
			text = own
		}
		q.Set(f.key, text)
	}
	for key := range p.Keys() {
		text, _ := p.Get(key)
		q.Set(key, text)
	}
	return q
}

// strict refuses what must never be written: text that is not JSON, that is
// nested too deep or not UTF-8, numbers that are no doubles. It returns p in the
// text that Ruby would write (see troupe.Payload.SetJSON), parsed anew, so that every
// later reader sees what Redis will hold.
func strict(p *troupe.Payload) (*troupe.Payload, error) {
	if !p.ValidUTF8() {
		for key := range p.Keys() {
			var one troupe.Payload
			text, _ := p.Get(key)
			if one.Set(key, text); !one.ValidUTF8() {
				return nil, &FieldError{key, "bytes that are not UTF-8", "UTF-8"}
			}
		}
		return nil, &FieldError{"payload", "a key that is not UTF-8", "UTF-8"}
	}
	raw, err := job.EncodeJSON(json.RawMessage(p.Bytes()))
	if err == nil {
		return troupe.ParsePayload(raw)
	}
	if _, fault := troupe.ParsePayload(p.Bytes()); fault != nil {
		return nil, fmt.Errorf("payload: %w", fault)
	}
	for key := range p.Keys() { // the place in the field says more
		var one troupe.Payload
		text, _ := p.Get(key)
		if fault := one.SetJSON(key, text); fault != nil {
			err = fault
			break
		}
	}
	return nil, fmt.Errorf("payload: %w", err)
}

func number(raw json.RawMessage) (float64, error) {
	if wirejson.KindOf(raw) != "a number" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(string(raw), 64)
}

// scalar shows a value that is no argument: short scalars as they are.
func scalar(raw json.RawMessage) string {
	if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || len(raw) > 40 {
		return wirejson.KindOf(raw)
	}
	return string(raw)
}
