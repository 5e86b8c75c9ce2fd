package job

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/words"
)

const (
	// ResultField is the field of a job that says for how many seconds its end is kept.
	ResultField = "t_result"

	// ResultTTL is how long a result is kept if nothing else is said.
	ResultTTL = time.Hour
)

// Ended is how a job has ended, as its waiters read it.
type Ended struct {
	Outcome string          `json:"outcome"` // done, cancelled, dead, dropped, expired, deleted
	At      float64         `json:"at"`      // seconds since the epoch
	Result  json.RawMessage `json:"result,omitempty"`

	ErrorClass   string `json:"error_class,omitempty"`
	ErrorMessage string `json:"error_message,omitempty"`
}

// The outcomes of an Ended beside names of Outcome.
const (
	EndedDead    = "dead"
	EndedDeleted = "deleted"
)

// Text is what Redis has of it.
func (e Ended) Text() []byte {
	if e.Result == nil && e.Outcome == Done.String() {
		e.Result = json.RawMessage("null")
	}
	e.ErrorClass, e.ErrorMessage = strings.ToValidUTF8(e.ErrorClass, "\ufffd"), strings.ToValidUTF8(e.ErrorMessage, "\ufffd")
	text, err := EncodeJSON(e)
	if err != nil {
		panic(err) // it has texts of UTF-8, and a result that is JSON
	}
	return text
}

// ParseEnded reads the text of an Ended.
func ParseEnded(text []byte) (Ended, error) {
	var e Ended
	if err := json.Unmarshal(text, &e); err != nil || e.Outcome == "" {
		return e, fmt.Errorf("the stored end of the job is %q, expected a JSON object with the field outcome", words.Short(string(text), 60))
	}
	return e, nil
}

// Time is when the job has ended.
func (e *Ended) Time() time.Time { return time.UnixMicro(int64(e.At * 1e6)).UTC() }

// ResultFor is how long the end of a job is kept whatever it is: as the job says, else its class; 0 if neither does.
func ResultFor(p *troupe.Payload, class *troupe.Options) time.Duration {
	if s, ok := p.Number(ResultField); ok && s > 0 {
		return time.Duration(min(s, 1e9) * 1e9)
	}
	if class != nil {
		return class.ResultFor
	}
	return 0
}

// Report is what a handler says of its job while it runs: its result and its progress. Safe for concurrent use.
type Report struct {
	mu       sync.Mutex
	result   json.RawMessage
	progress told
	ended    bool
}

// SetResult keeps the result for the end of the run. One that is set again replaces it.
func (r *Report) SetResult(text json.RawMessage) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return ErrEnded
	}
	r.result = text
	return nil
}

// Result is what was set last; nil without one. A nil Report has none.
func (r *Report) Result() json.RawMessage {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result
}

// Close ends the report: what is told after it is refused. A nil Report takes it.
func (r *Report) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}
