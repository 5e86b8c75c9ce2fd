package inspect

import (
	"encoding/json"
	"time"

	"github.com/troupehq/troupe"
)

// JobRecord is a job as it stands in Redis. Its fields are for reading: Raw is what the
// operations name the job by.
//
// Bytes that are no job (the dead set holds such) are a record, too: with an empty payload.
//
// Of a job that is longer than Inspector.MaxRead only the beginning and the end are known: Raw,
// Payload and all that is read from it are an object of both, with "… and 99 MB more" where it was
// cut, so that class, jid, times and error mostly are there.
type JobRecord struct {
	Raw   string // the exact bytes, unless it is cut
	JID   string // "" if it has none
	Queue string // the queue that the job stands in, or, in a set, its field "queue"

	// Payload is the parsed job, the empty one for bytes that are no job. It must not be
	// edited; see its Clone.
	Payload *troupe.Payload

	// Err is nil for a job, and for bytes that are none the *troupe.PayloadError that
	// says why.
	Err error

	Size int64 // in bytes

	text text
}

// Cut reports whether the job is so long that not all of it was read.
func (r *JobRecord) Cut() bool { return r.text.cut() }

// stored are the exact bytes by which Redis has the job, unless it is cut: of a held job with what stands in front of it.
func (r *JobRecord) stored() string { return r.text.head }

func newRecord(raw, queue string) JobRecord {
	return recordOf(text{head: raw, size: int64(len(raw))}, queue)
}

func recordOf(t text, queue string) JobRecord {
	r := JobRecord{Raw: t.shown(), Queue: queue, Size: t.size, text: t}
	p, err := troupe.ParsePayload([]byte(r.Raw))
	if err != nil {
		r.Payload, r.Err = new(troupe.Payload), err
		return r
	}
	r.Payload, r.JID = p, p.JID()
	if queue == "" {
		r.Queue = p.Queue()
	}
	return r
}

// JobSummary is what a list of jobs shows of one.
type JobSummary struct {
	// Class is that of an ActiveJob and not of its wrapper, UserMailer#welcome for a mail.
	Class string

	// Args is the text of an array: the arguments of an ActiveJob without its envelope,
	// an encrypted one masked; for bytes that are no job an array with them as a string,
	// as Sidekiq shows them; nil if there are none. Those of the payload are
	// Payload.Args.
	Args json.RawMessage

	Tags []string // labels

	CreatedAt  time.Time // when the job was first pushed, else EnqueuedAt
	EnqueuedAt time.Time // when it was last put into a queue; the zero time if it never was

	// Latency is the time since EnqueuedAt, or since CreatedAt if that is missing; 0 if
	// both are. It is below 0 for a time written by a clock ahead of ours.
	Latency time.Duration

	// Of the last failure; "" if the job never failed. See also ErrorBacktrace.
	ErrorClass, ErrorMessage string
}

// Summary returns what people are shown of the job.
func (r *JobRecord) Summary() JobSummary {
	s := JobSummary{Class: r.displayClass(), Args: r.displayArgs(), Tags: r.Payload.Tags(), Latency: r.latency()}
	s.EnqueuedAt, _ = r.Payload.Time("enqueued_at")
	s.CreatedAt = s.EnqueuedAt
	if t, ok := r.Payload.Time("created_at"); ok {
		s.CreatedAt = t
	}
	s.ErrorClass, _ = r.Payload.String("error_class")
	s.ErrorMessage, _ = r.Payload.String("error_message")
	return s
}

// args returns the text of the arguments, an array with the bytes if they are no job.
func (r *JobRecord) args() json.RawMessage {
	if r.Err == nil {
		return r.Payload.Args()
	}
	var p troupe.Payload
	p.SetString("raw", r.Raw)
	text, _ := p.Get("raw")
	return json.RawMessage("[" + string(text) + "]")
}

func (r *JobRecord) latency() time.Duration {
	for _, key := range [...]string{"enqueued_at", "created_at"} {
		if t, ok := r.Payload.Time(key); ok {
			return time.Since(t)
		}
	}
	return 0
}

func latencyOf(t text) time.Duration {
	if t.size == 0 {
		return 0
	}
	r := recordOf(t, "")
	return r.latency()
}
