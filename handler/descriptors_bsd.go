//go:build unix && !linux

package handler

// markInherited has programs not get the descriptors that this process has inherited.
func markInherited() { markEach() }
