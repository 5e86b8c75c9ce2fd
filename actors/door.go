package actors

import "github.com/troupehq/troupe/internal/door"

func init() {
	door.Of = func(daemon any) door.Faults { return daemon.(*Daemon).env.System } //nolint:forcetypeassert // a bug of the testkit's
}
