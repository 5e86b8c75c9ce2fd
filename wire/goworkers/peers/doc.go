// Package peers has tests of package goworkers beside the real go-workers and go-workers2, as
// processes. It is a module of its own: users of troupe do not need these.
package peers
