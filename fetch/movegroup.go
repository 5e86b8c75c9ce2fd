package fetch

import (
	"slices"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/script"
)

// moveGroup are moves from one list to one destination, in their order.
type moveGroup struct {
	l       *list
	written bool // see moving
	to      Destination
	queue   string // key of the queue, "" of a set
	known   string // name of the queue if it may be new to the set of all queues
	trim    string
	given   bool  // what is written is not the jobs themselves
	large   bool  // see moving; there is one
	effects bool  // of its moves
	moves   []int // of what is to be done
	refused string
}

// groups sorts moves by list and destination. The order of those into a queue stays.
func (p *index) groups(todo []moving) (groups []moveGroup) {
	for i := range todo {
		m := &todo[i]
		g := moveGroup{l: m.l, written: m.written, to: m.To, given: m.Payload != nil, large: m.large, effects: m.Effects != nil}
		switch {
		case m.written:
		case m.To == ToQueue || m.To == ToBack:
			g.queue = keys.Queue(m.queue())
			if m.Unit.Suspect && m.Queue == "" {
				g.queue = p.slot.Suspects(m.Unit.Queue)
			}
			if m.To == ToBack && !p.in.f.cluster {
				g.known = m.queue()
			}
		case m.To == ToDead:
			g.trim = m.Trim.Text()
		}
		at := slices.IndexFunc(groups, func(o moveGroup) bool {
			return !o.large && !g.large && o.l == g.l && o.written == g.written && o.to == g.to && o.queue == g.queue && o.trim == g.trim && o.given == g.given && o.effects == g.effects
		})
		if at < 0 || g.queue != "" && at < len(groups)-1 {
			at, groups = len(groups), append(groups, g)
		}
		groups[at].moves = append(groups[at].moves, i)
	}
	return groups
}

// moveArgs are the keys and arguments of settle.
func (p *index) moveArgs(todo []moving, groups []moveGroup) (names []string, args []any) {
	names = []string{keys.Retry, keys.Schedule, keys.Dead, keys.Queues}
	if p.in.f.cluster {
		names = []string{p.key, p.key, p.key, p.key}
	}
	for _, g := range groups {
		var to, queue any = int(g.to), ""
		given := ""
		list := script.KeyNumber(&names, g.l.key) + 1 // the index is the first
		if g.written || g.to == ToNone {
			to, g.written = "", true
		}
		if g.queue != "" {
			queue = script.KeyNumber(&names, g.queue) + 1
		}
		if g.given {
			given = "1"
		}
		oldest, job := p.oldest(todo, &g), func(i int) any { return todo[i].Unit.Payload }
		if g.large {
			oldest, job = nameOf(todo[g.moves[0]].Unit.Payload), func(int) any { return "" }
		}
		n := len(g.moves)
		if g.to == ToStay {
			oldest, n = "", 0
		}
		args = append(args, list, g.l.field, oldest, to, queue, g.known, g.trim, given, n)
		for _, i := range g.moves {
			if g.written || g.to == ToStay {
				break
			}
			if g.queue == "" {
				args = append(args, score(todo[i].Score))
			}
			if g.given {
				args = append(args, todo[i].Payload)
			} else {
				args = append(args, job(i))
			}
		}
		for _, i := range g.moves {
			if (g.given || g.written) && g.to != ToStay {
				args = append(args, job(i))
			}
		}
		args = p.effectArgs(todo, &g, &names, args)
	}
	return names, args
}

// oldest is the length of the list of a group if all the group's jobs are its oldest, and may
// go by their number; else "".
func (p *index) oldest(todo []moving, g *moveGroup) any {
	f := p.in.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if g.l.waits() || g.l.mixed || len(g.moves) > len(g.l.inHand) || slices.ContainsFunc(g.l.inHand, func(h takenJob) bool { return h.unsure }) {
		return ""
	}
	last := g.l.inHand[len(g.moves)-1].n // inHand is in the order of n, and no job is in todo twice
	if slices.ContainsFunc(g.moves, func(i int) bool { return todo[i].n > last }) {
		return ""
	}
	return len(g.l.inHand)
}
