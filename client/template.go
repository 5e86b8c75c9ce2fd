package client

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/troupehq/troupe"
)

// template is what all jobs of one class and one set of options begin with:
// {"retry":true,"queue":"default",…,"class":"X","args":
type template struct {
	class string
	queue string
	head  []byte
}

func newTemplate(fields []field, class string) (*template, error) {
	if class == "" {
		return nil, &FieldError{"class", `""`, "a name"}
	}
	name, err := troupe.EncodeJSON(class)
	if err != nil {
		return nil, &FieldError{"class", strconv.QuoteToASCII(class), "a name in UTF-8"}
	}
	size := len(name) + 20
	for _, f := range fields {
		size += len(f.name) + len(f.text) + 2
	}
	head := append(make([]byte, 0, size), '{')
	for _, f := range fields {
		head = append(append(append(append(head, f.name...), ':'), f.text...), ',')
	}
	head = append(append(append(head, `"class":`...), name...), `,"args":`...)
	queue, _ := stringOf(fields[queueField].text)
	return &template{class: class, queue: queue, head: head}, nil
}

// draft is a job on its way to Redis as plain text: the common push, without
// middleware, never needs a parsed payload.
type draft struct {
	entry
	jid string
}

// entry is what Redis gets.
type entry struct {
	queue string
	score string // of the member of schedule; "" puts the job into its queue
	raw   []byte
}

// draft writes a job up to created_at, without the closing brace.
func (t *template) draft(args json.RawMessage, jid string, at, now time.Time, created json.RawMessage) draft {
	d := draft{entry: entry{queue: t.queue}, jid: jid}
	if at.After(now) {
		d.score = troupe.FormatScore(troupe.Score(at))
	}
	raw := make([]byte, 0, len(t.head)+len(args)+len(jid)+2*len(created)+40)
	raw = append(append(raw, t.head...), args...)
	raw = append(append(raw, `,"jid":"`...), jid...)
	d.raw = append(append(raw, `","created_at":`...), created...)
	return d
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
	return p, err
}
