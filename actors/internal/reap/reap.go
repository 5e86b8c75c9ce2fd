// Package reap takes the exit status of orphans: of processes whose parents have ended without doing so, and
// which are children of this process now, since it is process 1 of a container or a subreaper. Nobody else can, and
// until then they stay in the list of processes.
//
// It takes no status that somebody waits for. What package os starts has a descriptor (a pidfd) in this process from
// its fork until Wait or Release, so a dead child without one is an orphan, or its owner does not
// want to know. Each stays for a second before, for programs that fork without package os and wait.
//
// On systems other than Linux it does nothing.
package reap
