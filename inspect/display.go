package inspect

import (
	"encoding/json"
	"strings"

	"github.com/troupehq/troupe"
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
	switch {
	case args != nil && r.Payload.Wrapped() == oldMailer:
		return array(args[min(3, len(args)):])
	case args != nil && r.Payload.Wrapped() == mailer:
		if args = args[min(3, len(args)):]; len(args) == 0 {
			return json.RawMessage("[]")
		}
		if inner := field(args[0], "args"); inner != nil {
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
	return r.args()
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
