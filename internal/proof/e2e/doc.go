// Package e2e holds the end-to-end tests: real processes (the troupe binary, a
// worker program built on package actors, Ruby's Sidekiq) on a real redis-server,
// with real signals, kills and cut connections. It has no code of its own.
package e2e
