package laravel

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/wirejson"
)

var errNotAJob = errors.New(`not a job of Laravel, expected a JSON object with a number in the field "attempts"`)

// callQueued is the job of all object jobs.
const callQueued = `Illuminate\Queue\CallQueuedHandler@call`

// parse is wire.Wire.Parse. Handlers find a job by its name, and a job that is a PHP object by
// its class; data is the one argument.
func (s *system) parse(payload []byte, queue string) (*troupe.Payload, error) {
	p, err := troupe.ParsePayload(payload)
	if err != nil {
		return nil, err
	}
	made, ok := attempts(p)
	if !ok {
		return nil, errNotAJob
	}
	name, _ := p.String("job")
	if name == "" {
		return nil, errors.New(`the field "job" is no name, expected that of a job`)
	}
	class := strings.TrimSuffix(name, "@fire")
	data, ok := p.Get("data")
	if !ok {
		data = []byte("null")
	}
	if name == callQueued {
		if class, data, err = s.command(data); err != nil {
			return nil, err
		}
		p.Set("data", data)
	}
	p.SetString("class", class)
	p.Set("args", append(append([]byte("["), data...), ']'))
	id, ok := p.String("uuid")
	if !ok || id == "" {
		id, _ = p.String("id")
	}
	p.SetString("jid", id)
	p.SetString("queue", queue)
	if made > 0 {
		p.SetInt("retry_count", made-1)
	}
	return p, nil
}

// command looks at a job that is a PHP object: its class, and its data with the object as plain
// text. What only PHP can run is refused.
func (s *system) command(data json.RawMessage) (class string, plain json.RawMessage, err error) {
	p, err := troupe.ParsePayload(data)
	if err != nil {
		return "", nil, errors.New(`the field "data" is no object, expected one with "command"`)
	}
	text, ok := p.String("command")
	if !ok {
		return "", nil, errors.New(`the field "data.command" is no text, expected a PHP object`)
	}
	if !strings.HasPrefix(text, "O:") {
		if s.key == nil {
			return "", nil, errors.New("the job is encrypted, expected Options.AppKey")
		}
		if text, err = decryptCommand(s.key, text); err != nil {
			return "", nil, fmt.Errorf("decrypting the job: %w", err)
		}
		p.SetString("command", text)
	}
	o, err := ParseObject(text)
	if err != nil {
		return "", nil, fmt.Errorf("data.command: %w", err)
	}
	if class, _ = p.String("commandName"); class == "" {
		class = o.Class
	}
	batch, _ := p.Get("batchId")
	own, _ := o.Get("batchId")
	switch {
	case o.Class == `Illuminate\Queue\CallQueuedClosure`:
		err = errors.New("the job is a closure: leave it to PHP")
	case o.chained():
		err = errors.New("the job has a chain, whose next job only PHP can push: leave it to PHP")
	case len(batch) > 0 && string(batch) != "null" || own != nil:
		err = errors.New("the job belongs to a batch, which PHP keeps in its database: leave it to PHP")
	}
	return class, p.Bytes(), err
}

// displayName is wire.Wire.Alias: the name that Laravel shows, which a class can choose.
func displayName(p *troupe.Payload) string {
	name, _ := p.String("displayName")
	return name
}

// Command returns the PHP object of a job that a handler was given, by the job's payload. A job
// that was pushed by name has none.
func Command(p *troupe.Payload) (*Object, error) {
	data, _ := p.Get("data")
	d, err := troupe.ParsePayload(data)
	if err != nil {
		return nil, errors.New("laravel: the job is no PHP object: it was pushed by name")
	}
	text, ok := d.String("command")
	if !ok {
		return nil, errors.New("laravel: the job is no PHP object: it was pushed by name")
	}
	return ParseObject(text)
}

// destroyed is why workers of Laravel would destroy a job with this text in it, nil if they would not.
func destroyed(text []byte) error {
	if at, fault := wirejson.PHPFault(text); fault != "" {
		return fmt.Errorf("workers of Laravel would destroy it: %s at byte %d", fault, at)
	}
	return nil
}

// attempts are the pops so far.
func attempts(p *troupe.Payload) (int64, bool) {
	n, ok := number(p, "attempts")
	return int64(n), ok && n >= 0 && n <= 1e15
}

// number reads a field as PHP would: a number, or a text of one.
func number(p *troupe.Payload, key string) (float64, bool) {
	raw, ok := p.Get(key)
	if !ok {
		return 0, false
	}
	text := string(raw)
	if s, is := p.String(key); is {
		text = strings.TrimSpace(s)
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}

// timeout is wire.Wire.Timeout.
func timeout(p *troupe.Payload) time.Duration {
	n, _ := number(p, "timeout")
	return time.Duration(min(max(n, 0), 1e9) * float64(time.Second))
}
