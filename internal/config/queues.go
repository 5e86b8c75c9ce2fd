package config

import (
	"fmt"
	"strings"

	"github.com/troupehq/troupe/fetch"
)

const (
	maxWeight = 1_000_000
	wantQueue = "a queue: name, [name, weight] or \"name,weight\""
)

// queues reads every form: a name, a list of names, pairs and "name,weight", or
// a map of weights. Sidekiq's rules since 7: without any weight the order is
// strict; a name that comes again counts with its weights summed, and not at all
// in strict order.
func (p *parse) queues(n *node, field string) fetch.Queues {
	var all fetch.WeightedList
	add := func(q fetch.QueueWeight, n *node, field string) {
		if q.Queue == "" {
			p.bad(n, field, "a name")
			return
		}
		all = append(all, q)
	}
	switch n.kind {
	case null:
		return nil
	case scalar:
		if q, ok := p.queue(n, field); ok {
			add(q, n, field)
		}
	case list:
		if len(n.items) == 0 {
			p.bad(n, field, "at least one queue")
		}
		for i, item := range n.items {
			at := fmt.Sprintf("%s[%d]", field, i)
			if q, ok := p.queue(item, at); ok {
				add(q, item, at)
			}
		}
	case mapping:
		for _, e := range n.entries {
			at := field + "." + e.key
			add(fetch.QueueWeight{Queue: e.key, Weight: p.weight(e.value, at)}, e.value, at)
		}
	}
	switch {
	case len(all) == 0:
		return nil
	case all.List().Mode() == "strict":
		return fetch.Strict(all.List().Names())
	}
	return all
}

// queue reads one item of the list.
func (p *parse) queue(n *node, field string) (fetch.QueueWeight, bool) {
	switch {
	case n.kind == scalar:
		name, weight, found := strings.Cut(n.plain(), ",")
		q := fetch.QueueWeight{Queue: strings.TrimSpace(name)}
		if found {
			w := *n
			w.text, w.quoted = strings.TrimSpace(weight), true
			q.Weight = p.weight(&w, field)
		}
		return q, true
	case n.kind == list && (len(n.items) == 1 || len(n.items) == 2) && n.items[0].kind == scalar:
		q := fetch.QueueWeight{Queue: n.items[0].plain()}
		if len(n.items) == 2 {
			q.Weight = p.weight(n.items[1], field)
		}
		return q, true
	}
	p.bad(n, field, wantQueue)
	return fetch.QueueWeight{}, false
}

// weight is 0 for null, and without the fraction for 2.5, as in Ruby.
func (p *parse) weight(n *node, field string) int {
	if n.kind == null {
		return 0
	}
	f, ok := n.number()
	if !ok || f < 0 || f > maxWeight {
		p.bad(n, field, fmt.Sprintf("a weight from 0 to %d", maxWeight))
		return 0
	}
	return int(f)
}

// ParseQueues reads the values of flags, each "name" or "name,weight"; nil for
// none. The error is a Faults that names flag.
func ParseQueues(flag string, values []string) (fetch.Queues, error) {
	p := &parse{out: &File{}}
	n := &node{kind: list}
	for _, v := range values {
		n.items = append(n.items, &node{kind: scalar, text: v})
	}
	if len(n.items) == 0 {
		return nil, nil
	}
	q := p.queues(n, flag)
	return q, p.faults.err()
}
