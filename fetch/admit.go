package fetch

import (
	"context"
	"fmt"
	"strconv"

	"github.com/troupehq/troupe/internal/keys"
)

// asks tells whether a move asks the limits of its job.
func (m *Move) asks() bool { return m.To == ToStay && m.Effects != nil && m.Effects.Rules != nil }

// askAgain is admit's reply for a job that asked ahead and was not let in.
const askAgain = " "

// askingFirst separates the moves that ask from the others.
func askingFirst(moves []Move) (asking, others []Move) {
	for i := range moves {
		if moves[i].asks() {
			asking = append(asking, moves[i])
		} else {
			others = append(others, moves[i])
		}
	}
	if asking == nil {
		return nil, moves
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
			again = hasPrefix(err, absent) && todo[i].large && p.sendWholeLocked(todo[i].l, todo[i].n) || again
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

// asking are the jobs in hand that are not let in yet, each once.
func (p *index) asking(moves []Move) (todo []moving) {
	f := p.in.f
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := make(map[string]bool, len(moves))
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
	return todo
}

// askArgs are the keys and arguments of admit.
func (p *index) askArgs(todo []moving) (names []string, args []any, err error) {
	first := todo[0].Effects.Rules
	args = append(args, first.Base, first.Lease.Seconds())
	for i := range todo {
		m, r := &todo[i], todo[i].Effects.Rules
		list, known := keys.Queue(m.Unit.Queue), p.known(m.Unit.Queue)
		if m.Unit.Suspect {
			list, known = p.slot.Suspects(m.Unit.Queue), ""
		}
		name, job, how := "", any(m.Unit.Payload), ""
		switch {
		case r.Ahead:
			how, job = "ahead", ""
		case m.large:
			name, job = nameOf(m.Unit.Payload), ""
		}
		if r.Force {
			how = "force"
		}
		var header []byte
		if !r.Ahead {
			if header, err = r.Header(list, known); err != nil {
				return nil, nil, err
			}
		}
		args = append(args, numberOf(&names, m.l.key)+1, m.l.field, name, job, r.JID, strconv.FormatFloat(r.Age, 'f', 6, 64), header, how, len(r.IDs))
		for _, id := range r.IDs {
			args = append(args, id)
		}
	}
	return names, args, nil
}
