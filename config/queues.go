package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/troupehq/troupe/fetch"
)

const (
	maxWeight = 1_000_000
	wantQueue = "a queue: name, [name, weight] or \"name,weight\""
)

// queue is a name with its weight; 0 means none was given.
type queue struct {
	name   string
	weight int
}

// queues reads every form: a name, a list of names, pairs and "name,weight", or
// a map of weights. Sidekiq's rule: without any weight the order is strict. A
// name that comes again counts as in Sidekiq since 7: with its weights summed,
// and not at all in strict order.
func (p *parse) queues(n *node, field string) fetch.Queues {
	var all []queue
	add := func(q queue, n *node, field string) {
		if q.name == "" {
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
		for i, item := range n.items {
			at := fmt.Sprintf("%s[%d]", field, i)
			if q, ok := p.queue(item, at); ok {
				add(q, item, at)
			}
		}
	case mapping:
		for _, e := range n.entries {
			at := field + "." + e.key
			add(queue{e.key, p.weight(e.value, at)}, e.value, at)
		}
		return weighted(all)
	}
	if len(all) == 0 && n.kind == list && len(n.items) == 0 {
		p.bad(n, field, "at least one queue")
	}
	return ordered(all)
}

// queue reads one item of the list.
func (p *parse) queue(n *node, field string) (queue, bool) {
	switch {
	case n.kind == scalar:
		name, weight, found := strings.Cut(n.plain(), ",")
		q := queue{name: strings.TrimSpace(name)}
		if found {
			w := *n
			w.text = strings.TrimSpace(weight)
			q.weight = p.weight(&w, field)
		}
		return q, true
	case n.kind == list && (len(n.items) == 1 || len(n.items) == 2) && n.items[0].kind == scalar:
		q := queue{name: n.items[0].plain()}
		if len(n.items) == 2 {
			q.weight = p.weight(n.items[1], field)
		}
		return q, true
	}
	p.bad(n, field, wantQueue)
	return queue{}, false
}

// weight is 0 for null, as in Ruby.
func (p *parse) weight(n *node, field string) int {
	if n.kind == null {
		return 0
	}
	i, err := strconv.Atoi(n.text)
	if n.kind != scalar || err != nil || i < 0 || i > maxWeight {
		p.bad(n, field, fmt.Sprintf("a weight from 0 to %d", maxWeight))
		return 0
	}
	return i
}

// ordered is strict without any weight, else weighted.
func ordered(all []queue) fetch.Queues {
	if len(all) == 0 {
		return nil
	}
	if slices.ContainsFunc(all, func(q queue) bool { return q.weight > 0 }) {
		return weighted(all)
	}
	var names fetch.Strict
	for _, q := range all {
		if !slices.Contains(names, q.name) {
			names = append(names, q.name)
		}
	}
	return names
}

// weighted counts a missing weight as 1.
func weighted(all []queue) fetch.Queues {
	if len(all) == 0 {
		return nil
	}
	weights := fetch.Weighted{}
	for _, q := range all {
		weights[q.name] += max(q.weight, 1)
	}
	return weights
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
