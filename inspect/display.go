package inspect

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/wirejson"
)

// Classes in which Rails wraps the call of a mailer.
const (
	oldMailer = "ActionMailer::DeliveryJob"
	mailer    = "ActionMailer::MailDeliveryJob"
)

// displayClass returns what people are shown as the class, see JobSummary.
func (r *JobRecord) displayClass() string {
	if shown, ok := r.Payload.String("display_class"); ok && shown != "" {
		return shown
	}
	class := r.Payload.DisplayClass()
	if class == mailer || class == oldMailer {
		if args := r.wrappedArgs(); len(args) >= 2 {
			object, _ := wirejson.Text(args[0])
			method, _ := wirejson.Text(args[1])
			return object + "#" + method
		}
	}
	return class
}

// displayArgs returns what people are shown as the arguments, see JobSummary.
func (r *JobRecord) displayArgs() json.RawMessage {
	args := r.wrappedArgs()
	for i := range args {
		args[i] = unwrap(args[i], 0)
	}
	switch {
	case args != nil && r.Payload.Wrapped() == oldMailer:
		return array(args[min(3, len(args)):])
	case args != nil && r.Payload.Wrapped() == mailer:
		if args = args[min(3, len(args)):]; len(args) == 0 {
			return json.RawMessage("[]")
		}
		params, inner := field(args[0], "params"), field(args[0], "args")
		switch {
		case params != nil && string(params) != "null":
			if inner == nil {
				inner = json.RawMessage("null")
			}
			return array([]json.RawMessage{params, inner})
		case inner != nil:
			return inner
		}
		return array(args)
	case args != nil:
		return array(args)
	}
	if sealed, ok := r.Payload.Get("encrypt"); ok && string(sealed) != "false" && string(sealed) != "null" {
		if args := wirejson.Elements(r.args()); len(args) > 0 {
			args[len(args)-1] = json.RawMessage(`"[encrypted data]"`)
			return array(args)
		}
	}
	return job.ShowSealed(r.args())
}

// What ActiveJob wraps around values.
const (
	activeJobPrefix = "_aj_"
	globalID        = "_aj_globalid"
	deepest         = 100 // what is deeper stays as it is
)

// unwrap returns an argument as the program gave it to ActiveJob. A record is its global id; a hash is
// without the keys that ActiveJob has added.
func unwrap(raw json.RawMessage, depth int) json.RawMessage {
	if depth > deepest || !bytes.Contains(raw, []byte(activeJobPrefix)) {
		return raw
	}
	if list := wirejson.Elements(raw); list != nil {
		for i := range list {
			list[i] = unwrap(list[i], depth+1)
		}
		return array(list)
	}
	p, err := troupe.ParsePayload(raw)
	if err != nil {
		return raw
	}
	all := slices.Collect(p.Keys())
	if id, ok := p.Get(globalID); ok && len(all) == 1 {
		return id
	}
	for _, key := range all {
		if strings.HasPrefix(key, activeJobPrefix) {
			p.Delete(key)
			continue
		}
		value, _ := p.Get(key)
		p.Set(key, unwrap(value, depth+1))
	}
	return p.Bytes()
}

// wrappedArgs returns the arguments inside of an ActiveJob's envelope; nil for
// other jobs.
func (r *JobRecord) wrappedArgs() []json.RawMessage {
	if r.Payload.Wrapped() == "" || r.Payload.HandlerClass() == r.Payload.Class() {
		return nil
	}
	args := wirejson.Elements(r.Payload.Args())
	if len(args) == 0 {
		return nil
	}
	return wirejson.Elements(field(args[0], "arguments"))
}

// field returns a field of the text of an object; nil if there is none.
func field(raw json.RawMessage, key string) json.RawMessage {
	p, err := troupe.ParsePayload(raw)
	if err != nil {
		return nil
	}
	value, _ := p.Get(key)
	return value
}

func array(values []json.RawMessage) json.RawMessage {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return json.RawMessage("[" + strings.Join(texts, ",") + "]")
}
