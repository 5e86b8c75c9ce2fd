package inspect

import (
	"encoding/json"
	"time"

	"github.com/troupehq/troupe"
)

// JobRecord is a job as it stands in Redis. It never changes.
//
// Bytes that are no job (the dead set holds such) are a record, too: without
// class, jid and times, and with the bytes as the only argument.
type JobRecord struct {
	raw     string
	payload *troupe.Payload
	err     error
	queue   string // the queue it stands in, "" elsewhere
}

func newRecord(raw, queue string) JobRecord {
	r := JobRecord{raw: raw, queue: queue}
	p, err := troupe.ParsePayload([]byte(raw))
	if err != nil {
		r.payload, r.err = new(troupe.Payload), err
		return r
	}
	r.payload = p
	return r
}

// Raw returns the exact bytes.
func (r *JobRecord) Raw() string { return r.raw }

// Payload returns the parsed job, the empty one for bytes that are no job. It
// must not be edited; see its Clone.
func (r *JobRecord) Payload() *troupe.Payload { return r.payload }

// Err is nil for a job, and for bytes that are none the *troupe.PayloadError
// that says why.
func (r *JobRecord) Err() error { return r.err }

// JID returns the job's id, "" if it has none.
func (r *JobRecord) JID() string { return r.payload.JID() }

// Queue returns the queue that the job stands in, or, in a set, its field
// "queue".
func (r *JobRecord) Queue() string {
	if r.queue != "" {
		return r.queue
	}
	return r.payload.Queue()
}

// Args returns the text of the arguments; for bytes that are no job an array
// with them as a string, as Sidekiq shows them, and nil if there are none.
func (r *JobRecord) Args() json.RawMessage {
	if r.err == nil {
		return r.payload.Args()
	}
	var p troupe.Payload
	p.SetString("raw", r.raw)
	text, _ := p.Get("raw")
	return json.RawMessage("[" + string(text) + "]")
}

// EnqueuedAt is when the job was last put into a queue; the zero time if it
// never was.
func (r *JobRecord) EnqueuedAt() time.Time {
	t, _ := r.payload.Time("enqueued_at")
	return t
}

// CreatedAt is when the job was first pushed, else EnqueuedAt.
func (r *JobRecord) CreatedAt() time.Time {
	if t, ok := r.payload.Time("created_at"); ok {
		return t
	}
	return r.EnqueuedAt()
}

// Latency is the time since EnqueuedAt, or since created_at if it is missing;
// 0 if both are. It is below 0 for a time written by a clock ahead of ours.
func (r *JobRecord) Latency() time.Duration {
	for _, key := range [...]string{"enqueued_at", "created_at"} {
		if t, ok := r.payload.Time(key); ok {
			return time.Since(t)
		}
	}
	return 0
}

func latencyOf(raw string) time.Duration {
	if raw == "" {
		return 0
	}
	r := newRecord(raw, "")
	return r.Latency()
}

// Tags returns the job's labels.
func (r *JobRecord) Tags() []string { return r.payload.Tags() }

// ErrorClass returns the class of the last failure, "" if the job never failed.
func (r *JobRecord) ErrorClass() string {
	s, _ := r.payload.String("error_class")
	return s
}

// ErrorMessage returns the message of the last failure.
func (r *JobRecord) ErrorMessage() string {
	s, _ := r.payload.String("error_message")
	return s
}
