package client

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/wirejson"
)

// settle checks the options, once all are set, and writes what each job begins
// with. err is the client's.
func (o *options) settle(err error) {
	queue := o.fields[queueField].text
	if o.queue, _ = wirejson.Text(queue); o.queue == "" {
		o.fail(&FieldError{"queue", scalar(queue), "a name"})
	}
	o.err = errors.Join(err, o.err)
	size := 1
	for _, f := range o.fields {
		size += len(f.name) + len(f.text) + 2
	}
	o.head = append(make([]byte, 0, size), '{')
	for _, f := range o.fields {
		o.head = append(append(append(append(o.head, f.name...), ':'), f.text...), ',')
	}
}

// draft is a job on its way to Redis as plain text: the common push, without
// middleware, never needs a parsed payload.
type draft struct {
	entry
	jid     string
	unique  *troupe.Unique // nil: the job is not
	encrypt bool           // its last argument
}

// asText tells whether the job goes to Redis as the text that it is.
func (d *draft) asText(c *Client) bool { return c.chain == nil && d.unique == nil && !d.encrypt }

// entry is what Redis gets.
type entry struct {
	queue string
	score string // of the member of schedule; "" puts the job into its queue
	raw   []byte
	lock  *job.Lock // of a unique job; else nil
}

// draft writes a job up to created_at, without the closing brace.
func (o *options) draft(class string, args json.RawMessage, jid string, at, now time.Time, created json.RawMessage) (draft, error) {
	if class == "" {
		return draft{}, &FieldError{"class", `""`, "a name"}
	}
	d := draft{entry: entry{queue: o.queue}, jid: jid, unique: o.unique, encrypt: o.encrypt}
	if at.After(now) {
		if err := o.expires(at); err != nil {
			return draft{}, err
		}
		d.score = scores.Format(scores.Of(at))
	}
	raw := make([]byte, 0, len(o.head)+len(class)+len(args)+len(jid)+2*len(created)+60)
	raw = append(append(raw, o.head...), `"class":`...)
	if plain(class) {
		raw = append(append(append(raw, '"'), class...), '"')
	} else {
		name, err := job.EncodeJSON(class)
		if err != nil {
			return draft{}, &FieldError{"class", strconv.QuoteToASCII(class), "a name in UTF-8"}
		}
		raw = append(raw, name...)
	}
	raw = append(append(raw, `,"args":`...), args...)
	raw = append(append(raw, `,"jid":"`...), jid...)
	d.raw = append(append(raw, `","created_at":`...), created...)
	return d, nil
}

// expires reports a job that has expired before at, when it is due. By Spread that is chance.
func (o *options) expires(at time.Time) error {
	i := slices.IndexFunc(o.fields, func(f field) bool { return f.key == "t_deadline" })
	if i < 0 || o.timed == "Spread" {
		return nil
	}
	deadline, _ := number(o.fields[i].text) // checked
	if deadline >= scores.Of(at) {
		return nil
	}
	got, due := time.UnixMicro(int64(deadline*1e6)).UTC().Format(time.RFC3339), at.UTC().Format(time.RFC3339)
	return &FieldError{"t_deadline", got, "a time after " + due + ", when the job is due"}
}

// close ends the text; scheduled jobs carry no enqueued_at.
func (d *draft) close(enqueued json.RawMessage) {
	if d.score == "" {
		d.raw = append(append(d.raw, `,"enqueued_at":`...), enqueued...)
	}
	d.raw = append(d.raw, '}')
}

// payload ends the text as middleware sees it: with at, without enqueued_at.
func (d *draft) payload() (*troupe.Payload, error) {
	p, err := troupe.ParsePayload(append(d.raw, '}'))
	if err == nil && d.score != "" {
		p.Set("at", json.RawMessage(d.score))
	}
	if err == nil && d.unique != nil {
		err = job.MarkUnique(p, *d.unique)
	}
	if err == nil && d.encrypt {
		job.MarkSealed(p)
	}
	return p, err
}
