// Package jobctx has the keys under which the context of a running job answers the root
// package. What runs handlers (the daemon, testkit) puts the values there. It is a package of its own
// since those import the root, which needs the keys too.
package jobctx

type (
	// Info is the key of a *troupe.JobInfo, or of a value with a method
	// JobInfo() troupe.JobInfo.
	Info struct{}

	// Goroutines is the key of what runs the goroutines of troupe.Go: see jobgroup.Group.
	Goroutines struct{}

	// Client is the key of the *client.Client of client.FromContext.
	Client struct{}

	// Kept is the key of the *job.Kept of client.Within.
	Kept struct{}

	// Rests is the key of a value with a method RestLimit, for troupe.Rest.
	Rests struct{}

	// Report is the key of what a handler tells of its job to, a value with the methods of the interface reporter of the
	// root package.
	Report struct{}

	// Keeper is the key of what keeps the state of an iterable job: see the interface
	// keeper of the root package.
	Keeper struct{}

	// Collector is the key of what collects the jobs of troupe.HandleMany: see the interface
	// collector of the root package.
	Collector struct{}
)
