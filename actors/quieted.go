package actors

import (
	"fmt"
	"time"
)

// quieted ends the fetching of c, because a strategy has stopped the actor at
// path, which c cannot do without; what waits goes back to the queues. Nothing
// but an event and a note in the tree would tell: the daemon runs on.
func (d *Daemon) quieted(c *capsule, path string) {
	err := fmt.Errorf("%s was stopped by its strategy", path)
	if cell := d.tree.find(path); cell != nil {
		cell.mu.Lock()
		last := cell.lastFailure
		cell.mu.Unlock()
		if last != nil {
			err = fmt.Errorf("%w: %w", err, last)
		}
	}
	d.mu.Lock()
	_, again := d.quiets[c.cfg.Name]
	if !again {
		if d.quiets == nil {
			d.quiets = map[string]string{}
		}
		d.quiets[c.cfg.Name] = path
	}
	d.mu.Unlock()
	if !again && d.events.wanted.Load() {
		d.events.publish(CapsuleQuiet{At: time.Now(), Capsule: c.cfg.Name, Err: err})
	}
	c.beginQuiet()
}

// noteQuiet tells in the row of each manager why its capsule is quiet.
func (d *Daemon) noteQuiet(t Tree) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range t {
		if n := &t[i]; n.Role == "manager" && n.Note == "" && d.quiets[n.Capsule] != "" {
			n.Note = fmt.Sprintf("(quiet: %s was stopped by its strategy)", d.quiets[n.Capsule])
		}
	}
}

// allQuiet tells whether nothing is fetched any more.
func (d *Daemon) allQuiet() bool {
	for _, c := range d.capsules {
		if !c.isQuiet() {
			return false
		}
	}
	return true
}
