package fetch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/script"
)

// asks tells whether a move asks the limits of its job.
func (m *Move) asks() bool { return m.To == ToStay && m.Effects != nil && m.Effects.Rules != nil }

// askAgain is admit's reply for a job that asked ahead and was not let in.
const askAgain = " "

// askingFirst separates the moves that ask from the others.
func askingFirst(moves []Move) (asking, others []Move) {
	n := 0
	for i := range moves {
		if moves[i].asks() {
			n++
		}
	}
	switch n {
	case 0:
		return nil, moves
	case len(moves):
		return moves, nil
	}
	for i := range moves {
		if moves[i].asks() {
			asking = append(asking, moves[i])
		} else {
			others = append(others, moves[i])
		}
	}
	return asking, others
}

// admit asks the limits of jobs in hand. What became of a call whose reply was lost the lists tell: a job that is still in its
// list was let in, another one is held.
func (p *index) admit(ctx context.Context, moves []Move) error {
	f := p.in.f
	return p.try(ctx, func() error {
		todo := p.asking(moves)
		if len(todo) == 0 {
			return nil // done before
		}
		names, args, err := p.askArgs(todo)
		if err != nil {
			return err
		}
		reply, err := p.call(ctx, admitScript, names, args, func() {
			for i := range todo {
				if todo[i].Effects.Rules.Ahead { // of those the lists tell nothing
					todo[i].Stay.Again = true
					continue
				}
				todo[i].Stay.Done, todo[i].l.mustRead = true, true
				if at := todo[i].l.find(todo[i].n); at >= 0 {
					todo[i].l.inHand[at].unsure = true
				}
			}
		})
		f.mu.Lock()
		defer f.mu.Unlock()
		again := false
		for i := range todo {
			again = redisconn.HasPrefix(err, absent) && todo[i].large && p.sendWholeLocked(todo[i].l, todo[i].n) || again
		}
		switch {
		case again:
			return errFellBack
		case err != nil:
			return err
		case len(reply) != len(todo):
			return fmt.Errorf("admit: %d replies for %d jobs", len(reply), len(todo))
		}
		for i, by := range reply {
			switch stay := todo[i].Stay; by {
			case "":
				stay.Done = true
			case askAgain:
				stay.Again = true
			default:
				stay.Done, stay.Held = false, by
				p.dropLocked(todo[i].l, todo[i].n)
			}
		}
		return nil
	})
}

// asking are the jobs in hand that are not let in yet, each once, the oldest first.
func (p *index) asking(moves []Move) (todo []moving) {
	f := p.in.f
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := make(map[string]bool, len(moves))
	todo = make([]moving, 0, len(moves))
	for _, m := range moves {
		l, n, ok := p.lookupLocked(&m.Unit)
		switch {
		case !ok:
			m.Stay.Done = false
		case !m.Stay.Done && !m.Stay.Again && !seen[m.Unit.Receipt]:
			seen[m.Unit.Receipt] = true
			todo = append(todo, moving{Move: m, l: l, n: n, large: len(m.Unit.Payload) >= largeJob && !m.Effects.Rules.Ahead && !l.inHand[l.find(n)].whole})
		}
	}
	slices.SortFunc(todo, func(a, b moving) int {
		return cmp.Or(cmp.Compare(a.Effects.Rules.Age, b.Effects.Rules.Age), cmp.Compare(a.n, b.n))
	})
	return todo
}

// askArgs are the keys and arguments of admit.
func (p *index) askArgs(todo []moving) (names []string, args []any, err error) {
	first := todo[0].Effects.Rules
	args = append(make([]any, 0, 8+2*len(todo)), first.Base, first.Lease.Seconds())
	for i := 0; i < len(todo); i++ {
		m, r := &todo[i], todo[i].Effects.Rules
		how := ""
		if r.Force {
			how = "force"
		}
		same := 1
		if r.Ahead {
			how = "ahead"
			for i+same < len(todo) && todo[i+same].Effects.Rules.Ahead && slices.Equal(todo[i+same].Effects.Rules.IDs, r.IDs) {
				same++
			}
		}
		args = append(args, how, len(r.IDs))
		for _, id := range r.IDs {
			args = append(args, id)
		}
		if r.Ahead {
			args = append(args, same)
			for k := range same {
				args = append(args, todo[i+k].Effects.Rules.JID)
			}
			i += same - 1
			continue
		}
		list, known := keys.Queue(m.Unit.Queue), p.known(m.Unit.Queue)
		if m.Unit.Suspect {
			list, known = p.slot.Suspects(m.Unit.Queue), ""
		}
		name, job := "", any(m.Unit.Payload)
		if m.large {
			name, job = nameOf(m.Unit.Payload), ""
		}
		header, err := r.Header(list, known)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, script.KeyNumber(&names, m.l.key)+1, m.l.field, name, job, r.JID, strconv.FormatFloat(r.Age, 'f', 6, 64), header)
	}
	return names, args, nil
}
