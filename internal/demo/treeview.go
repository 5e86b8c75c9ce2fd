package demo

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/actors"
)

// longRun is when a busy processor is worth a row of its own before others.
const longRun = time.Second

// treeRows draws the tree in at most limit rows: whole if it fits; else
// processors that have nothing to tell are summed up, one row a capsule.
func treeRows(t actors.Tree, now time.Time, limit int) []row {
	entries := fit(t, now, limit)
	rows := make([]row, 0, len(entries))
	for i, e := range entries {
		var r row
		r.add(dim, branches(entries, i))
		e.draw(&r, now)
		rows = append(rows, r)
	}
	if len(rows) > limit && limit > 0 {
		rows = append(rows[:limit-1], row{{"…", dim}})
	}
	return rows
}

// entry is a row of the tree: an actor, or the sum of several.
type entry struct {
	level int
	node  actors.Node
	sum   *tally
}

// tally sums up processors that are not shown.
type tally struct{ all, busy, idle, stopped, restarts int }

func (t *tally) add(n actors.Node) {
	t.all++
	t.restarts += n.Restarts
	switch n.State {
	case actors.StateBusy:
		t.busy++
	case actors.StateIdle:
		t.idle++
	case actors.StateStopped:
		t.stopped++
	default: // down: starting, crashed, restarting
	}
}

// String is like "3 busy, 2 idle, restarts 4"; down are those that start,
// crashed or restart.
func (t *tally) String() string {
	var parts []string
	for _, p := range []struct {
		n    int
		name string
	}{{t.busy, "busy"}, {t.idle, "idle"}, {t.stopped, "stopped"}, {t.all - t.busy - t.idle - t.stopped, "down"}} {
		if p.n > 0 {
			parts = append(parts, strconv.Itoa(p.n)+" "+p.name)
		}
	}
	if t.restarts > 0 {
		parts = append(parts, "restarts "+strconv.Itoa(t.restarts))
	}
	return strings.Join(parts, ", ")
}

// fit chooses the processors that are shown.
func fit(t actors.Tree, now time.Time, limit int) []entry {
	processors := map[string][]actors.Node{} // by capsule
	var capsules []string
	for _, n := range t {
		if n.Role != "processor" {
			continue
		}
		if processors[n.Capsule] == nil {
			capsules = append(capsules, n.Capsule)
		}
		processors[n.Capsule] = append(processors[n.Capsule], n)
	}
	shown := map[string]bool{} // paths
	if len(t) > limit {
		total := 0
		for _, name := range capsules {
			total += len(processors[name])
		}
		spare := limit - (len(t) - total) - len(capsules) // a row for each sum
		for name, n := range share(capsules, processors, spare) {
			ranked := slices.SortedStableFunc(slices.Values(processors[name]), func(a, b actors.Node) int {
				return cmp.Compare(dullness(a, now), dullness(b, now))
			})
			for _, node := range ranked[:n] {
				shown[node.Path] = true
			}
		}
	}
	var entries []entry
	sums := map[string]*tally{}
	left := map[string]int{}
	for _, n := range t {
		level := strings.Count(n.Path, "/")
		if n.Role != "processor" {
			entries = append(entries, entry{level: level, node: n})
			continue
		}
		if len(t) <= limit || shown[n.Path] {
			entries = append(entries, entry{level: level, node: n})
		} else {
			if sums[n.Capsule] == nil {
				sums[n.Capsule] = &tally{}
			}
			sums[n.Capsule].add(n)
		}
		left[n.Capsule]++
		if sum := sums[n.Capsule]; sum != nil && left[n.Capsule] == len(processors[n.Capsule]) {
			entries = append(entries, entry{level: level, sum: sum})
		}
	}
	return entries
}

// share deals spare rows out to the capsules in turn: how many processors of
// each are shown. The last one of a capsule costs nothing, for it takes the
// place of the sum.
func share(capsules []string, processors map[string][]actors.Node, spare int) map[string]int {
	n := map[string]int{}
	for dealt := true; dealt; {
		dealt = false
		for _, name := range capsules {
			switch all := len(processors[name]); {
			case n[name] == all-1:
				n[name] = all
			case n[name] < all && spare > 0:
				n[name]++
				spare--
				dealt = true
			}
		}
	}
	return n
}

// dullness ranks processors: those that are shown first have the least. It
// looks at nothing that changes many times a second, else rows would dance.
func dullness(n actors.Node, now time.Time) int {
	switch {
	case n.State == actors.StateStopped:
		return 4
	case n.State == actors.StateBusy && n.Job != nil && !n.Job.Started.IsZero() && now.Sub(n.Job.Started) >= longRun:
		return 1
	case n.State != actors.StateBusy && n.State != actors.StateIdle && n.State != actors.StateRunning:
		return 0
	case n.Restarts > 0:
		return 2
	}
	return 3
}

// branches draws the lines in front of entry i.
func branches(entries []entry, i int) string {
	var b strings.Builder
	for l := 1; l <= entries[i].level; l++ {
		switch last := lastChild(entries, i, l); {
		case l < entries[i].level && last:
			b.WriteString("   ")
		case l < entries[i].level:
			b.WriteString("│  ")
		case last:
			b.WriteString("└─ ")
		default:
			b.WriteString("├─ ")
		}
	}
	return b.String()
}

// lastChild tells whether nothing follows entry i at this level under the same parent.
func lastChild(entries []entry, i, level int) bool {
	for _, e := range entries[i+1:] {
		switch {
		case e.level == level:
			return false
		case e.level < level:
			return true
		}
	}
	return true
}

var stateStyles = map[actors.State]style{
	actors.StateStarting: yellow, actors.StateRunning: green, actors.StateIdle: dim, actors.StateBusy: cyan,
	actors.StateCrashed: red, actors.StateRestarting: yellow, actors.StateStopping: yellow, actors.StateStopped: dim,
}

func (e entry) draw(r *row, now time.Time) {
	if e.sum != nil {
		r.addf(dim, "%d more: %s", e.sum.all, e.sum)
		return
	}
	n := e.node
	r.addf(plain, "%-*s ", max(1, 20-3*e.level), n.Path[strings.LastIndexByte(n.Path, '/')+1:])
	r.addf(stateStyles[n.State], "%-10s", n.State)
	if n.Job != nil && n.Job.Class != "" {
		r.addf(plain, " %s", n.Job.Class)
		if !n.Job.Started.IsZero() {
			r.addf(dim, " %s", short(now.Sub(n.Job.Started)))
		}
	}
	if n.Restarts > 0 {
		r.addf(yellow, " restarts %d", n.Restarts)
	}
	if n.LastFailure != "" {
		r.addf(dim, ": %s", n.LastFailure)
	}
}
