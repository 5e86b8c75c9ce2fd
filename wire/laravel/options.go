package laravel

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/retry"
	"github.com/troupehq/troupe/wire"
)

// Options say where Laravel keeps its jobs, and what its worker would be told. The zero value is
// a connection without a prefix in the daemon's own database, and a worker without options.
type Options struct {
	// Prefix is what Laravel puts before each key: database.redis.options.prefix, by default
	// the name of the application and "_database_", as in "laravel_database_"; since Laravel
	// 13 "laravel-database-".
	Prefix string

	// Database is the number of the database, 0 in Laravel by default; nil means that of the
	// daemon's client.
	Database *int

	// Connection is Laravel's name of the queue connection; "" means "redis".
	Connection string

	// Tries is how often a job may be tried that does not say so itself: 0 means 1, as for
	// Laravel's worker, below 0 without end.
	Tries int

	// Backoff are the waits before the second attempt, the third and so on, of a job that
	// has none itself; the last one is for all that follow. nil means none.
	Backoff []time.Duration

	// AppKey is the APP_KEY of the application, for jobs that are encrypted: "base64:" and the
	// key. "" means that there are none.
	AppKey string

	// Relay is a queue that workers of Laravel serve. Failed jobs go there: the worker does not run
	// them, calls their method failed and writes the row into failed_jobs. "" means that they
	// stay in Redis, in troupe's set of failed jobs: see Client.Failed.
	Relay string

	// Cache says where Laravel's cache is, if it is in the same Redis: then queue:pause and
	// queue:restart are obeyed.
	Cache *Cache
}

// Cache is where Laravel's cache is.
type Cache struct {
	// Prefix is what all its keys begin with: that of the Redis connection, that of the
	// cache, and for Laravel up to 10 a colon, as in "laravel_database_laravel_cache_:".
	Prefix string
	// Database is the number of its database, 1 in Laravel by default.
	Database int
}

// New returns the wire of capsules. Each gets a fetcher of its own.
func New(o Options) (*wire.Wire, error) {
	if o.Connection == "" {
		o.Connection = "redis"
	}
	if o.Tries == 0 {
		o.Tries = 1
	}
	for i, d := range o.Backoff {
		if d < 0 {
			return nil, fmt.Errorf("laravel: Backoff[%d] is %s, expected 0 or more", i, d)
		}
	}
	if o.Database != nil && *o.Database < 0 {
		return nil, fmt.Errorf("laravel: Database is %d, expected 0 or more", *o.Database)
	}
	if o.Cache != nil && o.Cache.Database < 0 {
		return nil, fmt.Errorf("laravel: Cache.Database is %d, expected 0 or more", o.Cache.Database)
	}
	s := &system{Options: o}
	if o.AppKey != "" {
		var err error
		if s.key, err = parseAppKey(o.AppKey); err != nil {
			return nil, fmt.Errorf("laravel: AppKey: %w", err)
		}
	}
	return &wire.Wire{
		Name: "laravel", Parse: s.parse, Alias: displayName, Check: s.check, Timeout: timeout, Fetch: s.newFetcher,
		Rules: &retry.Rules{
			Retries: s.retries, Record: record, Wait: s.wait, Dead: s.row,
			Destroyed: func(text []byte) bool { return destroyed(text) != nil },
			Stays:     true,
		},
	}, nil
}

// system is an Options in use.
type system struct {
	Options
	key []byte // of AppKey
}

// names are the keys of Laravel.
type names string

func (n names) queue(name string) string    { return string(n) + "queues:" + name }
func (n names) delayed(name string) string  { return n.queue(name) + ":delayed" }
func (n names) reserved(name string) string { return n.queue(name) + ":reserved" }
func (n names) tokens(name string) string   { return n.queue(name) + ":notify" }

// Of troupe's own.
func (n names) failed() string        { return string(n) + "troupe:laravel:failed" }
func (n names) call(id string) string { return string(n) + "troupe:laravel:call:" + id }

var errCluster = errors.New("laravel: Redis is a cluster, expected a single server or Sentinel")

// database is a client of another database of the same server; the same one if it is that
// already.
func database(env fetch.Env, rdb *redis.Client, number int) *redis.Client {
	opt := *rdb.Options()
	if opt.DB == number {
		return rdb
	}
	opt.DB = number
	// of the other client
	opt.Limiter, opt.PushNotificationProcessor = nil, nil
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	other := redis.NewClient(&opt)
	redisconn.Guard(other)
	if env.OnClient != nil {
		env.OnClient(other)
	}
	return other
}

// checkQueues refuses names that are keys of another queue.
func checkQueues(queues []string) error {
	for _, q := range queues {
		for _, suffix := range []string{":delayed", ":reserved", ":notify"} {
			if other, ok := strings.CutSuffix(q, suffix); ok {
				return fmt.Errorf("laravel: the queue %q ends in %s, expected another name: it is a key of the queue %q", q, suffix, other)
			}
		}
	}
	return nil
}
