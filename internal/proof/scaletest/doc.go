// Package scaletest has the tests of daemons on more than one Redis: a real
// cluster with its failovers, and shards.
package scaletest
