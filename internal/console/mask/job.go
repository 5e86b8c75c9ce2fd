package mask

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/flight"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/words"
)

// Summary is what a list of jobs shows of one. Of bytes that are no job nobody knows what is secret.
func (m *Masker) Summary(r *inspect.JobRecord) inspect.JobSummary {
	s := r.Summary()
	if m.all() {
		return s
	}
	if r.Cut() { // nobody knows what the class was, and whether they are encrypted
		s.Args = json.RawMessage("[" + string(long(r.Size)) + "]")
	} else if len(s.Args) > most {
		s.Args = json.RawMessage("[" + string(long(int64(len(s.Args)))) + "]")
	}
	if list := elements(s.Args); strings.HasPrefix(r.Payload.Wrapped(), "ActionMailer::") && len(list) == 2 && list[0][0] == '{' && list[1][0] == '[' {
		list[1] = at(list[1], m.positions(classes(r, s.Class)), 0) // beside params the arguments are a list of their own
		s.Args = join(list)
	}
	if s.Args = m.Args(s.Args, classes(r, s.Class)...); r.Err != nil {
		s.Args = json.RawMessage("[" + Masked + "]")
	}
	for i, tag := range s.Tags {
		s.Tags[i] = m.Text(tag)
	}
	if len(s.ErrorMessage) > most {
		s.ErrorMessage = strings.ToValidUTF8(s.ErrorMessage[:most], "") + "…"
	}
	s.ErrorClass, s.ErrorMessage = m.Text(s.ErrorClass), m.Text(s.ErrorMessage)
	return s
}

// most is how many bytes of a field are masked and shown; of a longer one only the length is told.
const most = 64 << 10

func long(size int64) json.RawMessage {
	return fmt.Appendf(nil, `"[%s, too long to show]"`, words.Size(size))
}

// classes are all that a job may be called.
func classes(r *inspect.JobRecord, shown string) []string {
	return []string{shown, r.Payload.Class(), r.Payload.HandlerClass(), r.Payload.DisplayClass()}
}

// Rule is what a limit counts together, NAME:KEY, for people. The key is from an argument, of which nobody knows the position.
func (m *Masker) Rule(name, key string) string {
	if key == "" {
		return name
	}
	raw, _ := json.Marshal([]string{key}) // a list of texts
	var all []string
	if json.Unmarshal(m.Args(raw), &all) != nil || len(all) != 1 {
		return name + ":" + maskedText
	}
	return name + ":" + all[0]
}

// Bytes are those of a job, and of bytes that are no job.
func (m *Masker) Bytes(r *inspect.JobRecord) string {
	switch {
	case m.all():
		return r.Raw
	case r.Err != nil:
		return Masked
	}
	return string(m.Payload(r).Bytes())
}

// Payload is the whole of a job. What addresses it, its class, queue and jid, stays.
func (m *Masker) Payload(r *inspect.JobRecord) *troupe.Payload {
	if m.all() || r.Payload == nil {
		return r.Payload
	}
	masked := r.Payload.Clone()
	for key := range r.Payload.Keys() {
		raw, _ := r.Payload.Get(key)
		if len(raw) > most {
			masked.Set(key, long(int64(len(raw))))
			continue
		}
		switch key {
		case "class", "wrapped", "display_class", "queue", "jid", "error_class":
		case "args", "lock_args", "unique_args": // the others are of sidekiq-unique-jobs: the arguments once more
			if r.Cut() { // nobody knows what the class was, and whether they are encrypted
				masked.Set(key, json.RawMessage("["+string(long(r.Size))+"]"))
				continue
			}
			masked.Set(key, m.whole(r, raw))
		case "error_message":
			if text, ok := unquote(raw); ok && m.Text(text) != text {
				masked.SetString(key, m.Text(text))
			}
		case "tags":
			masked.Set(key, m.texts(raw))
		case "t_next": // the jobs of a chain behind this one
			masked.Set(key, m.behind(r, raw))
		case "error_backtrace":
			masked.Set(key, m.backtrace(r, raw))
		default:
			masked.Set(key, m.field(key, raw))
		}
	}
	return masked
}

// behind returns the jobs that follow a job in its chain, each of them masked.
func (m *Masker) behind(r *inspect.JobRecord, raw json.RawMessage) json.RawMessage {
	jobs, err := r.Behind()
	if err != nil {
		return json.RawMessage(Masked)
	}
	texts := make([]string, len(jobs))
	for i := range jobs {
		texts[i] = m.Bytes(&jobs[i])
	}
	text, err := job.EncodeJSON(texts)
	if err != nil {
		return json.RawMessage(Masked)
	}
	return text
}

// field is another field of a job: those of current attributes (cattr) are the program's own.
func (m *Masker) field(key string, raw json.RawMessage) json.RawMessage {
	switch {
	case m.secret(key):
		return json.RawMessage(Masked)
	case m.how == Hide && strings.HasPrefix(key, "cattr"):
		return json.RawMessage(hidden)
	}
	return m.Value(raw)
}

// whole masks the arguments as they are in the payload: those of an ActiveJob in their envelope.
func (m *Masker) whole(r *inspect.JobRecord, args json.RawMessage) json.RawMessage {
	if m.how == Hide {
		return m.Args(args)
	}
	args = job.ShowSealed(args)
	list := elements(args)
	positions := m.positions(classes(r, r.Summary().Class))
	switch first := len(list) - 1; {
	case first < 0:
		return m.Value(args)
	case enveloped(r):
		if envelope, err := troupe.ParsePayload(list[0]); err == nil && len(positions) > 0 {
			inner, _ := envelope.Get("arguments")
			if strings.HasPrefix(r.Payload.Wrapped(), "ActionMailer::") {
				inner = mail(inner)
			}
			envelope.Set("arguments", at(inner, positions, 0))
			list[0] = envelope.Bytes()
		}
		args = at(join(list), m.args[r.Payload.Class()], 0)
	default:
		if flag, ok := r.Payload.Get("encrypt"); ok && string(flag) != "false" && string(flag) != "null" {
			list[first] = json.RawMessage(sealed)
		}
		args = at(join(list), positions, 0)
	}
	return m.Value(args)
}

// enveloped reports whether a job has its arguments in the envelope of ActiveJob.
func enveloped(r *inspect.JobRecord) bool {
	return r.Payload.Wrapped() != "" && r.Payload.HandlerClass() != r.Payload.Class()
}

// mail are the arguments of a mail whose own ones have masked positions: mailer, method and delivery
// stay, and of the rest, which no version nests alike, nothing.
func mail(arguments json.RawMessage) json.RawMessage {
	list := elements(arguments)
	for i := range list {
		if i > 2 {
			list[i] = json.RawMessage(Masked)
		}
	}
	return join(list)
}

// texts is a list of texts.
func (m *Masker) texts(raw json.RawMessage) json.RawMessage {
	list := elements(raw)
	if list == nil {
		return m.Value(raw)
	}
	for i, one := range list {
		text, ok := unquote(one)
		if masked := m.Text(text); ok && masked != text {
			list[i], _ = json.Marshal(masked) // it is a text
		} else if !ok {
			list[i] = m.Value(one)
		}
	}
	return join(list)
}

// backtrace is the field, unpacked if something in it is secret.
func (m *Masker) backtrace(r *inspect.JobRecord, raw json.RawMessage) json.RawMessage {
	lines, err := r.ErrorBacktrace()
	if err != nil {
		return json.RawMessage(Masked)
	}
	masked := make([]string, len(lines))
	same := true
	for i, line := range lines {
		masked[i] = m.Text(line)
		same = same && masked[i] == line
	}
	if same {
		return raw
	}
	text, _ := json.Marshal(masked) // they are texts
	return text
}

// Backtrace are the lines of the last failure.
func (m *Masker) Backtrace(r *inspect.JobRecord) ([]string, error) {
	lines, err := r.ErrorBacktrace()
	for i, line := range lines {
		lines[i] = m.Text(line)
	}
	return lines, err
}

// Records are events, whose texts have errors in them.
func (m *Masker) Records(all []flight.Record) []flight.Record {
	for i := range all {
		all[i].Text = m.Text(all[i].Text)
	}
	return all
}
