package rescue

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
)

// Unnamed is a list of jobs in progress whose owner has no lease and is in no registry: no
// rescuer comes by it. Somebody has deleted the index that named it, or a blocked move into it
// was delivered when its owner had left.
type Unnamed struct {
	keys.Owned
	Key  string
	Jobs int64
}

const scanCount = 1000 // keys that one SCAN looks at

// Search looks for such lists among all keys; it may be broken off and goes on where it was. The
// zero value begins.
type Search struct {
	cursors map[string]uint64 // of the masters
	through map[string]bool
}

// Next looks for so long, or until it is through. After an error of a master too it returns what it has found.
func (s *Search) Next(ctx context.Context, rdb redis.UniversalClient, d time.Duration) (found []Unnamed, done bool, err error) {
	if s.cursors == nil {
		s.cursors, s.through = make(map[string]uint64), make(map[string]bool)
	}
	end := time.Now().Add(d)
	c, cluster := rdb.(*redis.ClusterClient)
	var masters []redis.UniversalClient
	if cluster {
		var mu sync.Mutex
		err = c.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			masters = append(masters, master)
			return nil
		})
	} else {
		masters = append(masters, rdb)
	}
	done = err == nil
	for _, master := range masters {
		addr := ""
		if node, ok := master.(*redis.Client); ok && cluster {
			addr = node.Options().Addr
		}
		for !s.through[addr] {
			if time.Now().After(end) {
				return found, false, err
			}
			page, next, failed := master.Scan(ctx, s.cursors[addr], keys.ListPrefix+"*", scanCount).Result()
			if failed == nil {
				var some []Unnamed
				some, failed = unnamed(ctx, rdb, page, cluster)
				found = append(found, some...)
			}
			if failed != nil { // the other masters tell of the rest
				err, done = errors.Join(err, failed), false
				break
			}
			s.cursors[addr], s.through[addr] = next, next == 0
		}
	}
	return found, done, err
}

// unnamed are those of these keys that are such lists.
func unnamed(ctx context.Context, rdb redis.UniversalClient, page []string, cluster bool) (found []Unnamed, err error) {
	type asked struct {
		Unnamed
		length  *redis.IntCmd
		leases  []*redis.IntCmd
		entries []*redis.StringCmd // of registries
	}
	var all []*asked
	_, err = rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, key := range page {
			// a client that renames keys does not rename them in replies
			_, rest, _ := strings.Cut(key, keys.ListPrefix)
			key = keys.ListPrefix + rest
			owners := keys.OwnersOf(key, cluster)
			if len(owners) == 0 {
				continue
			}
			a := &asked{Unnamed: Unnamed{Owned: owners[0], Key: key}, length: pipe.LLen(ctx, key)}
			for _, o := range owners {
				common := keys.CommonOf(o.ID, cluster)
				a.leases = append(a.leases, pipe.Exists(ctx, common.Lease))
				for _, registry := range []string{common.Owners, o.Slot.Registry()} {
					a.entries = append(a.entries, pipe.HGet(ctx, registry, o.ID))
				}
			}
			all = append(all, a)
		}
		return nil
	})
	var reply redis.Error
	if err != nil && !errors.As(err, &reply) {
		return nil, err
	}
	for _, a := range all {
		lost := a.length.Err() == nil && a.length.Val() > 0
		for _, cmd := range a.leases {
			lost = lost && cmd.Err() == nil && cmd.Val() == 0
		}
		for _, cmd := range a.entries {
			lost = lost && errors.Is(cmd.Err(), redis.Nil)
		}
		if lost {
			a.Jobs = a.length.Val()
			found = append(found, a.Unnamed)
		}
	}
	return found, nil
}

// QueueOf is what a job says of its queue; see Config.
func QueueOf(payload []byte) string {
	p, err := troupe.ParsePayload(payload)
	if err != nil {
		return ""
	}
	return p.Queue()
}
