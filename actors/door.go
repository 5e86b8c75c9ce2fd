package actors

import "github.com/troupehq/troupe/internal/door"

func init() {
	door.Of = func(daemon any) door.Faults { return daemon.(*Daemon).system } //nolint:forcetypeassert // a bug of the testkit's
}
