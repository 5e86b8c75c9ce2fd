package tree

import "time"

// Relay is how a relay of an outbox is, as it tells itself.
type Relay struct {
	State   string    `json:"state"` // leads, waits, no_database, no_tables or no_redis; "" while it does not run
	Since   time.Time `json:"since,omitzero"`
	Error   string    `json:"error,omitempty"` // the fault that it waits out
	Batches uint64    `json:"batches"`         // it has pushed
	Pushed  uint64    `json:"pushed"`          // jobs
	Bad     uint64    `json:"bad"`             // rows that are no jobs, which it has put into troupe_outbox_bad
	// What follows is counted by the relay that works.
	Waiting int64     `json:"waiting"`          // rows that are not pushed
	Oldest  time.Time `json:"oldest,omitzero"`  // when the oldest of them was written
	Refused int64     `json:"refused"`          // rows of troupe_outbox_bad
	Reason  string    `json:"reason,omitempty"` // of the last of them
}

// The states of a relay.
const (
	RelayLeads      = "leads"
	RelayWaits      = "waits"
	RelayNoDatabase = "no_database"
	RelayNoTables   = "no_tables"
	RelayNoRedis    = "no_redis"
)
