package supervised

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
)

// Faults injects faults into the tree of a daemon, each into the actor at a path. It
// returns an error if the daemon is not started or has no such actor (any more).
type Faults interface {
	// Crash makes the actor crash with reason, as if it had panicked.
	Crash(path string, reason error) error
	// Hold keeps the messages to the actor back until Release; Crash and the library's
	// own messages (stop, restart, the end of a child) pass. A restart does not end it;
	// the actor's end does, so that one spawned anew under the same path is not held.
	Hold(path string) error
	// Release delivers what Hold has kept back, in order, and ends it.
	Release(path string) error
	// Suspend stops the actor from taking messages, as the library does with one that
	// has crashed; a restart or Resume ends it. Messages wait in its mailbox.
	Suspend(path string) error
	// Resume ends a Suspend.
	Resume(path string) error
	// Actors is the system that the tree runs in, for probes that watch it; nil before
	// the start. Actors in it belong to the daemon: do not stop or message them.
	Actors() *actor.ActorSystem
}

// Crash makes the actor at path crash with reason.
func (s *System) Crash(path string, reason error) error {
	pid, _, err := s.process(path)
	if err != nil {
		return err
	}
	s.Root().Send(pid, Crash{Reason: reason})
	return nil
}

// Hold keeps the messages to the actor at path back until Release.
func (s *System) Hold(path string) error { return s.gate(path, (*Mailbox).holdBack) }

// Release delivers what Hold has kept back, in order, and ends it.
func (s *System) Release(path string) error { return s.gate(path, (*Mailbox).letPass) }

// Suspend stops the actor at path from taking messages.
func (s *System) Suspend(path string) error { return s.system(path, &actor.SuspendMailbox{}) }

// Resume ends a Suspend.
func (s *System) Resume(path string) error { return s.system(path, &actor.ResumeMailbox{}) }

func (s *System) process(path string) (*actor.PID, actor.Process, error) {
	sys := s.actors.Load()
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

func (s *System) system(path string, message any) error {
	pid, p, err := s.process(path)
	if err != nil {
		return err
	}
	p.SendSystemMessage(pid, message)
	return nil
}

func (s *System) gate(path string, do func(*Mailbox)) error {
	if _, _, err := s.process(path); err != nil {
		return err
	}
	box := s.Mailbox(path)
	if box == nil { // registered this instant, not yet in the tree
		return fmt.Errorf("actors: no actor at %q", path)
	}
	do(box)
	return nil
}
