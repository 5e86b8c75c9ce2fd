// Package conformance holds the tests that make "troupe is a peer of Sidekiq" a
// table anyone can run: docs/conformance.md lists the checks, one test each.
//
// The other side is a real Ruby Sidekiq, as real processes on a real
// redis-server: its client, its server with its poller, its data API, and its
// Web UI rendered through Rack, with buttons pressed. What only Sidekiq 7 and 8
// write is in testdata: bytes seen on a running 7.3.9 and 8.1.7, or written by
// hand. Nothing there was made by troupe.
//
// It has no code of its own.
package conformance
