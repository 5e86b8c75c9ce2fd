// This file writes what the dead set holds for JSON that is no object.
//
// Sidekiq's pages and its DeadSet raise where they meet such a member, so it is
// kept inside of a job that they can show. Bytes that are no JSON at all are kept
// as they are: Sidekiq shows them.

package job

import (
	"encoding/base64"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/troupehq/troupe"
)

// NotAJob is the class of a job that holds the text of what is no job as its one
// argument. No handler is meant to be registered for it.
const NotAJob = "Troupe::NotAJob"

// KeepNotAJob returns what to put into the dead set for raw, which was met where a job
// should be. JSON that is no object becomes a job of NotAJob; queue is the bare name
// of its queue, "" means default. A job of NotAJob that was pushed again is as it
// was before. All else is raw itself.
//
// In the argument, each run of bytes that is not UTF-8 is one U+FFFD, since Ruby
// could not write it back. The field raw_base64 then holds the exact bytes.
func KeepNotAJob(raw []byte, queue string, now time.Time, form troupe.Timestamps) []byte {
	p, err := troupe.ParsePayload(raw)
	if err == nil {
		if _, ok := p.Get("retry_count"); !ok || p.Failures() > 0 || p.Class() != NotAJob {
			return raw
		}
		p.SetInt("retry_count", 0) // a retry by hand has made it -1
		return p.Bytes()
	}
	fault, ok := errors.AsType[*troupe.PayloadError](err)
	if !ok || !strings.HasPrefix(fault.Reason, "not an object but ") {
		return raw
	}
	if queue == "" {
		queue = "default"
	}
	p = new(troupe.Payload)
	p.SetInt("retry", 0)
	p.SetString("queue", queue)
	p.SetString("class", NotAJob)
	p.SetString("args", string(raw))
	text, _ := p.Get("args")
	p.Set("args", append(append([]byte{'['}, text...), ']'))
	p.SetString("jid", NewID())
	p.SetTime("created_at", now, form)
	p.SetTime("enqueued_at", now, form)
	p.SetString("error_message", err.Error())
	p.SetString("error_class", troupe.ErrorClass(err))
	p.SetTime("failed_at", now, form)
	p.SetInt("retry_count", 0)
	if !utf8.Valid(raw) {
		p.SetString("raw_base64", base64.StdEncoding.EncodeToString(raw))
	}
	return p.Bytes()
}

// NotAJobAgain is the error of a job of NotAJob that was pushed again.
func NotAJobAgain() error {
	return &troupe.PayloadError{Reason: "not a job but a text that was kept as " + NotAJob}
}
