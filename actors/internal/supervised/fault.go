package supervised

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
)

// The methods below inject faults, for tests; package door tells what each does.

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
