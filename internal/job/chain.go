package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/words"
)

// Fields of a payload.
const (
	nextField   = "t_next"   // the jobs of a chain behind this one: an array of their texts, which have no such field
	parentField = "t_parent" // jid of the job with whose ack it was pushed
)

// Parent is the jid of the job that has pushed this one with its ack; "" if none has.
func Parent(p *troupe.Payload) string {
	jid, _ := p.String(parentField)
	return jid
}

// withParent adds the jid of the job that pushes to the text of a job.
func withParent(raw []byte, jid string) []byte {
	if jid == "" {
		return raw
	}
	if bytes.Contains(raw, []byte(parentField)) || !bytes.HasSuffix(raw, []byte("}")) {
		if p, err := troupe.ParsePayload(raw); err == nil {
			p.SetString(parentField, jid)
			return p.Bytes()
		}
		return raw
	}
	text, err := EncodeJSON(jid)
	if err != nil {
		return raw
	}
	out := append(make([]byte, 0, len(raw)+len(text)+16), raw[:len(raw)-1]...)
	return append(append(append(out, `,"`+parentField+`":`...), text...), '}')
}

// Chain writes the texts of the jobs behind p into it.
func Chain(p *troupe.Payload, behind []string) {
	text, err := EncodeJSON(behind)
	if err != nil {
		panic(err) // they are JSON
	}
	p.Set(nextField, text)
}

// Behind are the jobs of a chain behind this one, nil if there are none.
func Behind(p *troupe.Payload) ([]*troupe.Payload, error) {
	raw, ok := p.Get(nextField)
	if !ok {
		return nil, nil
	}
	var texts []string
	if err := json.Unmarshal(raw, &texts); err != nil {
		return nil, fmt.Errorf("field %s is %q, expected an array of jobs as texts", nextField, words.Short(string(raw), 60))
	}
	jobs := make([]*troupe.Payload, len(texts))
	for i, text := range texts {
		job, err := troupe.ParsePayload([]byte(text))
		if err == nil && (job.Queue() == "" || job.Class() == "") {
			err = fmt.Errorf("it has no queue or no class")
		}
		if err != nil {
			return nil, fmt.Errorf("field %s: job %d of %d: %w", nextField, i+1, len(texts), err)
		}
		jobs[i] = job
	}
	return jobs, nil
}

// Next is the push of the next job of a chain, behind which the others are. In a batch, in unless that is nil, it has the place of the job before it.
func Next(behind []*troupe.Payload, in *InBatch, parent string, now time.Time, form troupe.Timestamps) Push {
	next := behind[0].Clone()
	if len(behind) > 1 {
		texts := make([]string, len(behind)-1)
		for i, p := range behind[1:] {
			texts[i] = string(p.Bytes())
		}
		Chain(next, texts)
	}
	if in != nil {
		next.SetString(batchField, in.String())
	}
	next.SetTime("enqueued_at", now, form)
	if parent != "" {
		next.SetString(parentField, parent)
	}
	return Push{Queue: next.Queue(), Payload: next.Bytes()}
}

// HasOwn tells by a look at its bytes whether a job may have fields that only troupe writes, or a lock of sidekiq-unique-jobs.
func HasOwn(raw []byte) bool {
	for { // of the three bytes "t_ the last is the rarest in a job
		i := bytes.IndexByte(raw, '_')
		if i < 0 {
			return false
		}
		if i >= 2 && raw[i-1] == 't' && raw[i-2] == '"' {
			return true
		}
		if raw = raw[i+1:]; len(raw) > 0 && raw[0] == 'd' && bytes.HasPrefix(raw, []byte(gemField[len("lock_"):])) {
			return true
		}
	}
}

// MayChain tells by a look at its bytes whether a job may have others behind it.
func MayChain(raw []byte) bool { return bytes.Contains(raw, []byte(nextField)) }
