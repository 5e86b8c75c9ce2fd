package show

import (
	"fmt"
	"slices"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/tree"
)

// Tree is the supervision tree.
func (v *View) Tree() tree.Tree { return v.tree(v.System.Snapshot(v.Now)) }

// tree is made of all actors but the processors that have stopped since their capsule has fewer by now.
func (v *View) tree(rows []supervised.Row) tree.Tree {
	t := make(tree.Tree, 0, len(rows))
	for _, r := range rows {
		i := slices.IndexFunc(v.Capsules, func(c Capsule) bool { return c.Name == r.Capsule })
		if i >= 0 && r.State == tree.StateStopped && v.Capsules[i].Spare[r.Path] {
			continue
		}
		n := r.Node
		if i >= 0 {
			v.Capsules[i].show(&n)
		}
		for j := range v.Outboxes {
			v.Outboxes[j].show(&n)
		}
		t = append(t, n)
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
