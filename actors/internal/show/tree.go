package show

import (
	"fmt"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/tree"
)

// Tree is the supervision tree.
func (v *View) Tree() tree.Tree { return v.tree(v.System.Snapshot(v.Now)) }

func (v *View) tree(rows []supervised.Row) tree.Tree {
	t := make(tree.Tree, len(rows))
	for i, r := range rows {
		t[i] = tree.Node{
			Path: r.Path, Role: r.Role, Capsule: r.Capsule, State: tree.State(r.State), Note: r.Note,
			Restarts: r.Restarts, LastFailure: r.LastFailure, Depth: r.Depth, For: r.For,
		}
		if used, most, period := v.System.Budget(r.Path); most > 0 {
			t[i].Budget = &tree.Budget{Used: used, Most: most, Period: period}
		}
		for j := range v.Capsules {
			if v.Capsules[j].Name == r.Capsule {
				v.Capsules[j].show(&t[i])
			}
		}
	}
	return t
}

// show fills in what the capsule knows of one of its actors.
func (c *Capsule) show(n *tree.Node) {
	switch n.Role {
	case "manager":
		n.Unresponsive = c.Unresponsive
		if c.QuietBy != "" && n.Note == "" {
			n.Note = fmt.Sprintf("(quiet: %s was stopped by its strategy)", c.QuietBy)
		}
	case "processor":
		ref, busy := c.Working[n.Path]
		if busy { // also of an actor that is down: the job goes on
			n.Job = &ref
		}
		switch {
		case n.State != tree.StateRunning:
		case busy:
			n.State = tree.StateBusy
		case c.Starting[n.Path]:
			n.State = tree.StateStarting
		default:
			n.State = tree.StateIdle
		}
	}
}
