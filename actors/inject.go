package actors

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
)

// Fault injection by path beside Daemon.Crash, for tests and drills. Each returns
// an error when the daemon is not started or has no such actor (any more).

// Hold keeps the messages to the actor at path back until Release; Crash and the
// library's own messages (stop, restart, the end of a child) pass. A restart
// does not end it; the actor's end does, so that one spawned anew under the same
// path is not held.
func (d *Daemon) Hold(path string) error { return d.gate(path, (*mailbox).holdBack) }

// Release delivers what Hold has kept back, in order, and ends it.
func (d *Daemon) Release(path string) error { return d.gate(path, (*mailbox).letPass) }

// Suspend stops the actor at path from taking messages, as the library does with
// one that has crashed; a restart or Resume ends it. Messages wait in its mailbox.
func (d *Daemon) Suspend(path string) error { return d.system(path, &actor.SuspendMailbox{}) }

// Resume ends a Suspend.
func (d *Daemon) Resume(path string) error { return d.system(path, &actor.ResumeMailbox{}) }

// ActorSystem is the system that the tree runs in, for probes that watch it; nil
// before Start. Actors in it belong to the daemon: do not stop or message them.
func (d *Daemon) ActorSystem() *actor.ActorSystem { return d.sys.Load() }

func (d *Daemon) process(path string) (*actor.PID, actor.Process, error) {
	sys := d.sys.Load()
	if sys == nil {
		return nil, nil, errors.New("actors: the daemon is not started")
	}
	pid := actor.NewPID(sys.Address(), path)
	p, ok := sys.ProcessRegistry.Get(pid)
	if !ok {
		return nil, nil, fmt.Errorf("actors: no actor at %q", path)
	}
	return pid, p, nil
}

func (d *Daemon) system(path string, message any) error {
	pid, p, err := d.process(path)
	if err != nil {
		return err
	}
	p.SendSystemMessage(pid, message)
	return nil
}

func (d *Daemon) gate(path string, do func(*mailbox)) error {
	if _, _, err := d.process(path); err != nil {
		return err
	}
	box := d.tree.box(path)
	if box == nil { // registered this instant, not yet in the tree
		return fmt.Errorf("actors: no actor at %q", path)
	}
	do(box)
	return nil
}
