package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// MinVersion is the oldest Redis that has all the commands that are used.
const MinVersion = "6.2"

// VersionError is a Redis that is too old.
type VersionError struct {
	Addr  string
	Found string
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("redis at %s is version %s, expected %s or newer", e.Addr, e.Found, MinVersion)
}

// KeyTypeError is one of Sidekiq's keys that holds something else.
type KeyTypeError struct {
	Key, Found, Want string // types as TYPE names them
}

func (e *KeyTypeError) Error() string {
	return fmt.Sprintf("redis key %q is a %s, expected a %s: rename or delete it, or use another database", e.Key, e.Found, e.Want)
}

// keyTypes are the types of the keys with a fixed name.
var keyTypes = []struct{ key, want string }{
	{keys.Queues, "set"},
	{keys.Retry, "zset"},
	{keys.Schedule, "zset"},
	{keys.Dead, "zset"},
	{keys.Processes, "set"},
	{keys.StatProcessed, "string"},
	{keys.StatFailed, "string"},
}

// Check looks whether a Redis will do: it answers, it is MinVersion or newer
// (a *VersionError otherwise; Valkey answers with the version of Redis that it
// is compatible with), and the fixed keys have their types (*KeyTypeError, all
// of them joined). warnings are sentences for the log: a maxmemory policy that
// may evict jobs, or that the server does not let us ask. A server that answers
// INFO without a version or a policy, as an embedded one does, passes silently. names
// are what the systems that are in use call the keys; none is Sidekiq alone.
func Check(ctx context.Context, rdb redis.UniversalClient, names ...func(key string) string) (warnings []string, err error) {
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		if warnings, err = checkCluster(ctx, cluster); err != nil {
			return warnings, err
		}
		return warnings, checkKeys(ctx, rdb, names)
	}
	addr := Addr(rdb)
	switch err := rdb.Ping(ctx).Err(); {
	case redis.HasErrorPrefix(err, "NOPERM") && strings.Contains(err.Error(), "'select'"):
		return nil, fmt.Errorf("redis at %s does not let its user choose the database: grant it +select: %w", addr, err)
	case redis.HasErrorPrefix(err, "NOPERM"): // package rights names all that is missing
	case err != nil:
		return nil, pingError(addr, err)
	}
	info, err := rdb.Info(ctx).Result()
	switch {
	case err == nil:
		if infoField(info, "redis_mode") == "cluster" {
			if noCluster(rdb.ClusterInfo(ctx).Err()) {
				return nil, errHalfCluster(addr)
			}
			return nil, fmt.Errorf("redis at %s is a node of a cluster: give it as redis+cluster://host:port, "+
				"or a *redis.ClusterClient", addr)
		}
		if err := verdict(addr, info, &warnings); err != nil {
			return nil, err
		}
	case Classify(err) == Outage || Classify(err) == Local:
		return nil, fmt.Errorf("ask redis at %s for its version: %w", addr, err)
	default:
		warnings = append(warnings, fmt.Sprintf("redis at %s does not tell its version and "+
			"maxmemory-policy (%v): expected %s or newer, and noeviction", addr, err, MinVersion))
	}
	return warnings, checkKeys(ctx, rdb, names)
}

func pingError(addr string, err error) error {
	if redis.HasErrorPrefix(err, "NOPERM") {
		return fmt.Errorf("redis at %s does not tell where the slots of the cluster are: grant its user +cluster: %w", addr, err)
	}
	if r, ok := Refused(err); ok {
		what := "refuses to serve"
		if Classify(err) == Auth {
			what = "refuses the login"
		}
		return fmt.Errorf("redis at %s %s: %s: %w", addr, what, r.Text, err)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("redis at %s has a certificate that is not trusted: make its authority known to the system "+
			"(SSL_CERT_FILE), or trust any with ?skip_verify=true in the URL: %w", addr, err)
	}
	switch Classify(err) {
	case Outage:
		return fmt.Errorf("redis at %s cannot be reached: %w", addr, err)
	default:
		return fmt.Errorf("ping redis at %s: %w", addr, err)
	}
}

// noCluster reports whether a server refused a command of clusters since it knows none.
func noCluster(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "cluster support disabled") ||
		strings.Contains(err.Error(), "unknown command"))
}

// errHalfCluster is the fault of an endpoint that is of a cluster and does not let its
// clients see it.
func errHalfCluster(addr string) error {
	return fmt.Errorf("redis at %s says that it is of a cluster (redis_mode:cluster) and does not know CLUSTER, "+
		"as a proxy in front of one: troupe needs to know where the slots are. Give it an endpoint that serves CLUSTER "+
		"as redis+cluster://host:port, or a database that is no cluster", addr)
}

// CheckTypes looks whether the fixed keys of Sidekiq have their types: a *KeyTypeError, all of
// them joined.
func CheckTypes(ctx context.Context, rdb redis.UniversalClient) error {
	return checkKeys(ctx, rdb, nil)
}

func checkKeys(ctx context.Context, rdb redis.UniversalClient, names []func(string) string) error {
	var asked []string
	for _, k := range keyTypes {
		if len(names) == 0 {
			asked = append(asked, k.key)
		}
		for _, name := range names {
			asked = append(asked, name(k.key))
		}
	}
	types := make([]*redis.StatusCmd, len(asked))
	// The error of the pipeline is that of its first failed command.
	_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range asked {
			types[i] = p.Type(ctx, key)
		}
		return nil
	})
	var faults []error
	for i, key := range asked {
		want := keyTypes[i/max(1, len(names))].want
		found, err := types[i].Result()
		switch Classify(err) {
		case None:
			if found != want && found != "none" {
				faults = append(faults, &KeyTypeError{Key: key, Found: found, Want: want})
			}
		case Outage, Local:
			return fmt.Errorf("ask redis for the type of key %q: %w", key, err)
		default: // not allowed to ask: the first use will tell
		}
	}
	return errors.Join(faults...)
}

// Addr names the server of a client for people: "host:port/db", a socket's
// path, or the addresses of a cluster. It never shows credentials.
func Addr(rdb redis.UniversalClient) string {
	switch c := rdb.(type) {
	case *redis.Client:
		o := c.Options()
		return o.Addr + "/" + strconv.Itoa(o.DB)
	case *redis.ClusterClient:
		return strings.Join(c.Options().Addrs, ",")
	}
	return fmt.Sprintf("%T", rdb)
}

// infoField reads "name:value" out of the reply of INFO.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TooOld reports whether a version is below MinVersion, by its first two numbers; text that is
// no version passes.
func TooOld(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	maj, err := strconv.Atoi(major)
	if err != nil {
		return false
	}
	sub, _ := strconv.Atoi(minor)
	return maj < 6 || maj == 6 && sub < 2
}
