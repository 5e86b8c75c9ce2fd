package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

// Fetcher is one capsule of one of our processes, with what it has fetched and not
// settled: jobs that are in no queue.
type Fetcher struct {
	ID      string   // IDENTITY#CAPSULE.INCARNATION
	Process string   // identity
	Capsule string   // name
	Queues  []string // those it fetches from

	// Alive: its lease runs. Else it is an orphan: its jobs go back to their queues
	// within a minute, by any live process of ours or by the command "troupe rescue".
	Alive bool
	Lease time.Duration // how long the lease still runs
	// Fenced: a rescuer has shut it out and has not finished with it.
	Fenced bool
	Size   int64 // jobs in progress

	// Unknown is what the registry says of a fetcher whose layout this version does not
	// know, else "". What it has in progress is not looked at, and nobody of this
	// version touches it. The fetchers of a former layout are one, whose ID is the key
	// of their registry.
	Unknown string

	slots []slot
}

// slot is a place of a fetcher: on one server there is one, on a cluster one for each queue.
type slot struct {
	keys.Slot
	queues []string
}

// Fetchers returns all that are registered, by ID; those of a former layout are last.
func (i *Inspector) Fetchers(ctx context.Context) ([]*Fetcher, error) {
	fetchers, err := i.fetchers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list fetchers: %w", err)
	}
	for chunk := range slices.Chunk(fetchers, fetchersPage) {
		claims, err := i.claims(ctx, chunk)
		if err != nil {
			return nil, fmt.Errorf("list fetchers: %w", err)
		}
		for _, c := range claims {
			c.Fetcher.Size += c.Size
		}
	}
	former, err := i.former(ctx)
	if err != nil {
		return nil, fmt.Errorf("list fetchers: %w", err)
	}
	return append(fetchers, former...), nil
}

// former returns a fetcher for each registry of an earlier layout that is not empty.
func (i *Inspector) former(ctx context.Context) (fetchers []*Fetcher, err error) {
	all := keys.OldRegistries(redisconn.OnCluster(i.db()))
	cmds := make([]redis.Cmder, len(all))
	for n, key := range all {
		cmds[n] = redis.NewIntCmd(ctx, "exists", key)
	}
	if err := i.pipelined(ctx, cmds); err != nil {
		return nil, err
	}
	for n, key := range all {
		if cmds[n].(*redis.IntCmd).Val() > 0 {
			fetchers = append(fetchers, &Fetcher{ID: key, Unknown: "a registry of a former layout"})
		}
	}
	return fetchers, nil
}

// registered is what the registry says of a fetcher.
type registered struct {
	Layout int      `json:"v"`
	Queues []string `json:"queues"`
}

// fetchers reads the registry. On a cluster each queue has one of its own beside it: the
// node of one may have fallen back.
func (i *Inspector) fetchers(ctx context.Context) ([]*Fetcher, error) {
	cluster := redisconn.OnCluster(i.db())
	byID := make(map[string]*Fetcher)
	note := func(id, text string) {
		f := byID[id]
		if f == nil {
			f = &Fetcher{ID: id}
			f.Process, f.Capsule, _ = strings.Cut(id, "#")
			if dot := strings.LastIndexByte(f.Capsule, '.'); dot >= 0 {
				f.Capsule = f.Capsule[:dot]
			}
			byID[id] = f
		}
		var r registered
		if err := json.Unmarshal([]byte(text), &r); err != nil || r.Layout != keys.Layout {
			f.Unknown = text
			return
		}
		for _, q := range r.Queues {
			if !slices.Contains(f.Queues, q) {
				f.Queues = append(f.Queues, q)
			}
		}
	}
	if err := i.registry(ctx, keys.CommonOf("", cluster).Owners, note); err != nil {
		return nil, err
	}
	if cluster {
		names, err := i.members(ctx, keys.Queues)
		if err != nil {
			return nil, err
		}
		for _, f := range byID {
			names = append(names, f.Queues...)
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if strings.ContainsAny(name, "{}") { // no daemon on a cluster takes from it
				continue
			}
			if err := i.registry(ctx, keys.SlotOf(name, true).Registry(), note); err != nil {
				return nil, err
			}
		}
	}
	out := make([]*Fetcher, 0, len(byID))
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		f := byID[id]
		if out = append(out, f); f.Unknown != "" {
			f.Queues = nil
			continue
		}
		if !cluster {
			f.slots = []slot{{queues: f.Queues}}
			continue
		}
		for _, q := range f.Queues {
			f.slots = append(f.slots, slot{keys.SlotOf(q, true), []string{q}})
		}
	}
	return out, i.leases(ctx, out, cluster)
}

// registry reads one.
func (i *Inspector) registry(ctx context.Context, key string, note func(id, text string)) error {
	texts, err := i.db().HGetAll(ctx, key).Result()
	if err != nil && !absent(err) {
		return err
	}
	for id, text := range texts {
		note(id, text)
	}
	return nil
}

// leases notes who is alive.
func (i *Inspector) leases(ctx context.Context, fetchers []*Fetcher, cluster bool) error {
	cmds := make([]redis.Cmder, len(fetchers))
	for n, f := range fetchers {
		cmds[n] = redis.NewIntCmd(ctx, "pttl", keys.CommonOf(f.ID, cluster).Lease)
	}
	if err := i.pipelined(ctx, cmds); err != nil {
		return err
	}
	for n, f := range fetchers {
		left := cmds[n].(*redis.IntCmd).Val() // -2: there is none
		f.Alive, f.Lease = left != -2, time.Duration(max(left, 0))*time.Millisecond
	}
	return nil
}
