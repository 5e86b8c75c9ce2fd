package retry

import (
	"encoding/json"
	"math"

	"github.com/troupehq/troupe"
)

// maxRetryFor is the longest retry_for that Sidekiq's client takes, in seconds.
const maxRetryFor = 1e9

// pushable edits m so that Sidekiq's poller can push it. The poller loses a job that its client refuses:
// one with a class that is no string, without arguments, with arguments or tags that are no array, or with
// an odd retry_for. The edited fields mean what they meant before. Most jobs need no edit.
func pushable(m *troupe.Payload) {
	if raw, ok := m.Get("class"); ok && raw[0] != '"' {
		m.SetString("class", m.Class())
	}
	if raw, _ := m.Get("args"); !isArray(raw) {
		args := m.Args()
		if args == nil {
			args = json.RawMessage("[]")
		}
		m.Set("args", args)
	}
	if raw, ok := m.Get("tags"); ok && !isArray(raw) && !isFalsy(raw) {
		if text := quoted(m.Tags()); text != nil {
			m.Set("tags", text)
		} else {
			m.Delete("tags")
		}
	}
	if raw, ok := m.Get("retry_for"); ok && !isFalsy(raw) {
		n, ok := m.Number("retry_for")
		switch {
		case !ok:
			m.Set("retry_for", nil)
		case n > maxRetryFor || n < -maxRetryFor:
			m.SetInt("retry_for", int64(math.Copysign(maxRetryFor, n)))
		case !isInteger(string(raw)):
			m.SetInt("retry_for", int64(n))
		}
	}
}

func isArray(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '[' }

func isFalsy(raw json.RawMessage) bool { return string(raw) == "null" || string(raw) == "false" }

// quoted is an array of strings; nil for none.
func quoted(list []string) json.RawMessage {
	if len(list) == 0 {
		return nil
	}
	var p troupe.Payload
	if p.SetJSON("list", list) != nil { // a string that is not UTF-8
		return nil
	}
	text, _ := p.Get("list")
	return text
}
