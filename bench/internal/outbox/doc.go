// Package outbox has the tests of troupe's package outbox with a real PostgreSQL, whose driver is in this module and not in
// troupe's.
package outbox
