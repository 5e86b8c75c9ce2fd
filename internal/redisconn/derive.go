package redisconn

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Need is what the daemon asks of its connections. The zero value asks for
// what a blocking command of 2 s needs.
type Need struct {
	// PoolSize is the least number of connections that may be open at once (per
	// node of a cluster); a larger pool of the user's stays as it is.
	PoolSize int

	// Idle is how many connections stay open while nobody uses them, where the
	// user's options do not limit that; 0 means all of them. Each costs the server
	// about a microsecond a second.
	Idle int

	// Rest is how long an idle connection stays open; 0 means as the user's options
	// say. The idle ones are used in turn: Rest is longer than the longest pause between
	// two uses of any, so that one stays open, and shorter than two such pauses, so that
	// the others are closed. It has no effect on a cluster.
	Rest time.Duration

	// Block is the longest time the server may be asked to wait within one
	// command; 0 means 2 s. The read timeout is at least Slack above it.
	Block time.Duration

	// Name is shown by CLIENT LIST; empty keeps the name in the options.
	Name string
}

// Slack is what a reply may take beyond the time the server was asked to
// wait. It is a second above Sidekiq's own network timeout, 3 s.
const Slack = 4 * time.Second

// longest bounds the time-outs of the user's options beyond Block: a connection that is half
// open is given up after that.
const longest = 30 * time.Second

const defaultBlock = 2 * time.Second

// UnreadableError is returned by Derive for a client whose options it cannot
// read.
type UnreadableError struct {
	Type string // Go type of the client
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("redis client of type %s: expected a *redis.Client or a *redis.ClusterClient, "+
		"since the daemon opens its own connections from the options of the client it is given; "+
		"pass redis.NewClient(options) with the options this one was made from", e.Type)
}

// Derive opens the daemon's own client from the options of rdb, which may be a
// *redis.Client (one of redis.NewFailoverClient too, see the package) or a
// *redis.ClusterClient; anything else is an *UnreadableError. Nothing is dialed
// yet.
//
// Kept: address, database, credentials, TLS, dialer, OnConnect, protocol, dial
// timeouts, buffer sizes, connection ages. Changed: see Need and the package.
// Left out, for they belong to the application: hooks (those of actors.Config's
// OnClient are added), limiter, client-side cache, the processor of push
// notifications. Panics in what the application adds are errors, see Guard.
func Derive(rdb redis.UniversalClient, need Need) (redis.UniversalClient, error) {
	switch c := rdb.(type) {
	case nil:
		return nil, errors.New("redis client: got nil, expected a *redis.Client or a *redis.ClusterClient")
	case *redis.Client:
		if c == nil {
			return nil, errors.New("redis client: got a nil *redis.Client")
		}
		own := redis.NewClient(single(c.Options(), need))
		Guard(own)
		return own, nil
	case *redis.ClusterClient:
		if c == nil {
			return nil, errors.New("redis client: got a nil *redis.ClusterClient")
		}
		return newCluster(cluster(c.Options(), need)), nil
	}
	return nil, &UnreadableError{Type: fmt.Sprintf("%T", rdb)}
}

// single copies options and bends the copy to the daemon's needs. The options
// of a client are normalised: what the user wrote as -1 reads 0 here, and would
// be taken for the default again, so all such fields are set.
func single(from *redis.Options, need Need) *redis.Options {
	o := *from
	if o.MaintNotificationsConfig != nil {
		maint := *o.MaintNotificationsConfig
		o.MaintNotificationsConfig = &maint
	}
	if o.MaxConcurrentDials == from.PoolSize {
		o.MaxConcurrentDials = 0 // was the default: follows the pool's size again
	}
	o.PoolSize, o.MaxActiveConns = poolSize(o.PoolSize, o.MaxActiveConns, need)
	if need.Rest > 0 && o.MaxIdleConns == 0 && o.MinIdleConns == 0 {
		o.PoolFIFO = true // go-redis looks how long one was idle when its turn comes
		if o.ConnMaxIdleTime <= 0 || o.ConnMaxIdleTime > need.Rest {
			o.ConnMaxIdleTime = need.Rest
		}
	}
	o.MaxIdleConns = idle(o.MaxIdleConns, o.MinIdleConns, need)
	o.PipelinePoolSize = -1 // pipelines need no connections, and buffers of 256 KB, of their own
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeouts(o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, need)
	o.MaxRetries = -1
	o.ContextTimeoutEnabled = true
	if need.Name != "" {
		o.ClientName = need.Name
	}
	o.OnConnect = onConnect(o.OnConnect)
	o.Limiter = nil
	o.PushNotificationProcessor = nil
	o.ClientSideCacheConfig, o.ClientSideCache = nil, nil
	return &o
}

// cluster is single for a cluster. MaxRedirects is off too: beside following
// MOVED and ASK it repeats commands after network errors. The one call that
// meets a moved slot fails (an Outage, see Classify) and makes the client learn
// the new layout.
func cluster(from *redis.ClusterOptions, need Need) *redis.ClusterOptions {
	o := *from
	o.Addrs = slices.Clone(o.Addrs)
	if o.MaintNotificationsConfig != nil {
		maint := *o.MaintNotificationsConfig
		o.MaintNotificationsConfig = &maint
	}
	o.PoolSize, o.MaxActiveConns = poolSize(o.PoolSize, o.MaxActiveConns, need)
	o.MaxIdleConns = idle(o.MaxIdleConns, o.MinIdleConns, need)
	o.PipelinePoolSize = -1 // pipelines need no connections, and buffers of 256 KB, of their own
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeouts(o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, need)
	o.MaxRetries = -1
	o.MaxRedirects = -1
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false // a replica's answer may be old
	o.ContextTimeoutEnabled = true
	if need.Name != "" {
		o.ClientName = need.Name
	}
	o.OnConnect = onConnect(o.OnConnect)
	o.PushNotificationProcessor = nil
	return &o
}

// poolSize raises a cap of the user's on the connections of one client, too:
// blocked commands would use it up and the heartbeat find no connection. Size 0,
// from a URL, is go-redis's default.
func poolSize(size, limit int, need Need) (int, int) {
	if size == 0 {
		size = 10 * runtime.GOMAXPROCS(0)
	}
	size = max(size, need.PoolSize)
	if limit > 0 && limit < need.PoolSize {
		limit = need.PoolSize
	}
	return size, limit
}

// idle bounds the connections that wait for use, unless the user has: the burst
// of calls at the start would leave one open for each of them, for ever.
func idle(most, least int, need Need) int {
	if most > 0 || need.Idle == 0 {
		return most
	}
	return max(need.Idle, least)
}

// timeouts returns read, write and pool timeouts. None (0 or below) is not
// accepted, nor an hour: a Redis that hangs must be noticed, it is a state like
// any other.
func timeouts(read, write, pool time.Duration, need Need) (r, w, p time.Duration) {
	block := need.Block
	if block <= 0 {
		block = defaultBlock
	}
	r = min(max(read, block+Slack), block+longest)
	if w = min(write, longest); w <= 0 {
		w = Slack
	}
	return r, w, min(max(pool, r+time.Second), r+longest)
}
