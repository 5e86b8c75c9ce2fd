package inspect

import (
	"slices"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/wirejson"
)

// read takes over what the info of a process says, whichever version wrote it.
func (p *Process) read(info *troupe.Payload) {
	p.Hostname, _ = info.String("hostname")
	p.Tag, _ = info.String("tag")
	p.Version, _ = info.String("version")
	p.StartedAt, _ = info.Time("started_at")
	p.PID = intOf(info, "pid")
	p.Concurrency = intOf(info, "concurrency")
	embedded, _ := info.Get("embedded")
	p.Embedded = string(embedded) == "true"
	p.Labels = texts(info, "labels")
	p.Queues = texts(info, "queues")

	if p.Capsules = capsules(info); p.Capsules == nil {
		p.Capsules = weights(info)
	}
	if p.Queues != nil {
		return
	}
	for _, c := range p.Capsules {
		for _, q := range c.Queues {
			if !slices.Contains(p.Queues, q) {
				p.Queues = append(p.Queues, q)
			}
		}
	}
}

// capsules reads what Sidekiq 8 and troupe write: name → object.
func capsules(info *troupe.Payload) (out []Capsule) {
	all := object(info, "capsules")
	for name := range all.Keys() {
		one := object(all, name)
		c := Capsule{Name: name, Concurrency: intOf(one, "concurrency")}
		c.Mode, _ = one.String("mode")
		c.weigh(object(one, "weights"))
		out = append(out, c)
	}
	return out
}

// weights reads what Sidekiq 7 writes: an array, one object a capsule.
func weights(info *troupe.Payload) (out []Capsule) {
	raw, _ := info.Get("weights")
	for _, one := range wirejson.Elements(raw) {
		p, err := troupe.ParsePayload(one)
		if err != nil {
			continue
		}
		var c Capsule
		c.weigh(p)
		out = append(out, c)
	}
	return out
}

func (c *Capsule) weigh(weights *troupe.Payload) {
	c.Weights = make(map[string]int)
	for q := range weights.Keys() {
		c.Queues = append(c.Queues, q)
		c.Weights[q] = intOf(weights, q)
	}
}

func object(p *troupe.Payload, key string) *troupe.Payload {
	raw, _ := p.Get(key)
	inner, err := troupe.ParsePayload(raw)
	if err != nil {
		return new(troupe.Payload)
	}
	return inner
}

func intOf(p *troupe.Payload, key string) int {
	n, _ := p.Int(key)
	return int(n)
}

func texts(p *troupe.Payload, key string) (out []string) {
	raw, _ := p.Get(key)
	for _, v := range wirejson.Elements(raw) {
		if s, ok := wirejson.Text(v); ok {
			out = append(out, s)
		}
	}
	return out
}
