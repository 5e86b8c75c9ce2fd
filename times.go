package troupe

// Timestamps is the form in which times are written into payloads
// (created_at, enqueued_at, failed_at, retried_at). Both forms are read
// everywhere, see Payload.Time.
type Timestamps int

const (
	// TimestampsFloat is the default: it writes seconds since the epoch as a JSON
	// number with a fraction: the only form that Sidekiq 6, 7 and 8 all read
	// correctly (8 takes any integer for milliseconds).
	TimestampsFloat Timestamps = iota

	// TimestampsMillis writes integer milliseconds, as Sidekiq 8 does. Use it
	// once no process and no Web UI of version 6 or 7 is left.
	TimestampsMillis
)
