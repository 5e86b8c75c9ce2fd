package beat

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe"
)

// Info is what does not change while a process lives.
type Info struct {
	Hostname  string // see Hostname
	PID       int
	Identity  string // HOST:PID:NONCE, see NewIdentity
	StartedAt time.Time
	Tag       string    // shown beside the identity; "" if none
	Capsules  []Capsule // in the order in which they are shown
	Labels    []string  // "reliable"
	Version   string    // printed as text, "0.1.0"
	Embedded  bool      // part of somebody else's process: the UI shows no Quiet and Stop
}

// Capsule is one set of queues with its own processors.
type Capsule struct {
	Name        string
	Concurrency int
	Mode        string         // "strict", "weighted" or "random"
	Queues      []string       // bare names, in order
	Weights     map[string]int // by queue; a missing one is 0, as in strict mode
}

// Concurrency is the number of processors of all capsules.
func (i Info) Concurrency() int {
	n := 0
	for _, c := range i.Capsules {
		n += c.Concurrency
	}
	return n
}

// JSON returns the hash field "info" with the fields of every Sidekiq from 6
// on: pages of 6 and 7 break when one of theirs is missing. Bytes that are not
// UTF-8 become U+FFFD.
func (i Info) JSON() []byte {
	var capsules troupe.Payload
	queues, weights := []string{}, []*troupe.Payload{}
	for _, c := range i.Capsules {
		w, capsule := new(troupe.Payload), new(troupe.Payload)
		for _, q := range c.Queues {
			w.SetInt(q, int64(c.Weights[q]))
			if !slices.Contains(queues, q) {
				queues = append(queues, q)
			}
		}
		weights = append(weights, w)
		capsule.SetInt("concurrency", int64(c.Concurrency))
		capsule.SetString("mode", c.Mode)
		capsule.Set("weights", w.Bytes())
		capsules.Set(c.Name, capsule.Bytes())
	}

	var p troupe.Payload
	p.SetString("hostname", i.Hostname)
	// A float in every version, whatever form the timestamps in jobs have.
	p.SetTime("started_at", i.StartedAt, troupe.TimestampsFloat)
	p.SetInt("pid", int64(i.PID))
	p.SetString("tag", i.Tag)
	p.SetInt("concurrency", int64(i.Concurrency()))
	p.Set("capsules", capsules.Bytes())
	setList(&p, "queues", valid(queues))
	setList(&p, "weights", weights)
	setList(&p, "labels", valid(i.Labels))
	p.SetString("identity", i.Identity)
	p.SetString("version", i.Version)
	p.Set("embedded", strconv.AppendBool(nil, i.Embedded))
	return p.Bytes()
}

// setList sets a field to an array. It cannot fail: the values are payloads, or
// strings that are UTF-8.
func setList[T any](p *troupe.Payload, key string, values []T) {
	if err := p.SetJSON(key, values); err != nil {
		panic(err)
	}
}

func valid(texts []string) []string {
	out := make([]string, 0, len(texts))
	for _, s := range texts {
		out = append(out, strings.ToValidUTF8(s, "\ufffd"))
	}
	return out
}
