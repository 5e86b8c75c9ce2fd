package periodic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/sched"
)

// Store is the periodic jobs of a Redis. It is safe for concurrent use.
type Store struct {
	Redis redis.UniversalClient
	Zone  *time.Location // of lines that name none
	// Known tells which classes have a handler here; nil: entries of Ruby are not judged.
	Known func(class string) bool
	// Crypt seals the last argument of entries whose class asks for it; nil has no keys.
	Crypt *job.Crypt
}

// record is a field of keys.Periodic: what a configuration with a tag has written last.
type record struct {
	Digest     string    `json:"digest"`
	Namespaces []string  `json:"namespaces"`
	At         time.Time `json:"at"`
}

// All reads all entries, by their names.
func (s *Store) All(ctx context.Context) ([]*Entry, error) {
	pipe := s.Redis.Pipeline()
	records := pipe.HGetAll(ctx, keys.Periodic)
	old := pipe.SMembers(ctx, keys.PeriodicSet(""))
	usual := pipe.SMembers(ctx, keys.PeriodicSet(usualSpace))
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read periodic jobs: %w", err)
	}
	of := map[string][]string{"": old.Val(), usualSpace: usual.Val()}
	for _, text := range records.Val() {
		var r record
		_ = json.Unmarshal([]byte(text), &r)
		for _, space := range r.Namespaces {
			if of[space] == nil {
				list, err := s.Redis.SMembers(ctx, keys.PeriodicSet(space)).Result()
				if err != nil {
					return nil, fmt.Errorf("read periodic jobs of %s: %w", space, err)
				}
				of[space] = list
			}
		}
	}
	var all []*Entry
	for _, space := range slices.Sorted(maps.Keys(of)) {
		some, err := s.read(ctx, space, of[space])
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	if err := s.states(ctx, all); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *Entry) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return strings.Compare(a.key, b.key)
	})
	return all, nil
}

// usualSpace is the namespace of an entry that names none.
const usualSpace = "default"

// read reads the hashes; one that is gone, or no hash, is left out.
func (s *Store) read(ctx context.Context, space string, names []string) (all []*Entry, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	hashes, marks := make([]*redis.MapStringStringCmd, len(names)), make([]*redis.StringSliceCmd, len(names))
	_, err = s.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range names {
			hashes[i], marks[i] = p.HGetAll(ctx, key), p.ZRangeArgs(ctx, redis.ZRangeArgs{Key: keys.PeriodicMarks(key), Start: 0, Stop: 0, Rev: true})
		}
		return nil
	})
	if err != nil && !isReply(err) {
		return nil, fmt.Errorf("read periodic jobs: %w", err)
	}
	for i, key := range names {
		if len(hashes[i].Val()) == 0 {
			continue
		}
		e := parse(key, space, hashes[i].Val(), first(marks[i].Val()), s.zone(), s.Known)
		for _, err := range []error{hashes[i].Err(), marks[i].Err()} {
			if err != nil && e.Fault == nil {
				e.Fault = err
			}
		}
		if e.Fault == nil {
			e.Next = e.line.Next(time.Now())
			if e.ahead(time.Now()) {
				e.Next = e.line.Next(e.Mark)
			}
		}
		all = append(all, e)
	}
	return all, nil
}

// states disables and enables the entries that are shared with sidekiq-scheduler as its page says.
func (s *Store) states(ctx context.Context, all []*Entry) error {
	var names []string
	for _, e := range all {
		if e.Shared {
			names = append(names, e.Name)
		}
	}
	if names == nil {
		return nil
	}
	states, err := s.Redis.HMGet(ctx, keys.SchedulerStates, names...).Result()
	if err != nil && !isReply(err) {
		return fmt.Errorf("read the states of sidekiq-scheduler: %w", err)
	}
	for _, e := range all {
		switch {
		case !e.Shared:
		case err != nil:
			e.Fault = cmp.Or(e.Fault, err)
		default:
			said := struct{ Enabled bool }{!e.Disabled}
			e.state, _ = states[0].(string)
			_ = json.Unmarshal([]byte(e.state), &said) // "" says nothing
			states, e.Disabled = states[1:], !said.Enabled
		}
	}
	return nil
}

func isReply(err error) bool { var r redis.Error; return errors.As(err, &r) }

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func (s *Store) zone() *time.Location {
	if s.Zone != nil {
		return s.Zone
	}
	return sched.Local()
}

// ErrNotFound says that there is no such entry.
var ErrNotFound = errors.New("no periodic job has this name")

// Find reads the entry of a name; with several of it namespace chooses, "-" the one that has none.
func (s *Store) Find(ctx context.Context, name, namespace string) (*Entry, error) {
	all, err := s.All(ctx)
	if err != nil {
		return nil, err
	}
	var found []*Entry
	for _, e := range all {
		if e.Name == name && (namespace == "" || namespace == cmp.Or(e.Namespace, "-")) {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("periodic job %q: %w", name, ErrNotFound)
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("periodic job %q: it is in %d namespaces, name one, or - for the one without", name, len(found))
}

// Save writes entries that people or a program have made: a boot does not take them away.
func (s *Store) Save(ctx context.Context, list ...troupe.Periodic) error {
	all, err := s.All(ctx)
	if err != nil {
		return err
	}
	return s.save(ctx, "", list, spaceOf(all))
}

// save writes entries; those that name no namespace go to space.
func (s *Store) save(ctx context.Context, tag string, list []troupe.Periodic, space string) error {
	cluster := redisconn.OnCluster(s.Redis)
	for _, spec := range list {
		if spec.Namespace == "" {
			spec.Namespace = space
		}
		d, err := newDraft(spec, tag, s.zone())
		if err = cmp.Or(err, CheckCluster(spec, cluster)); err != nil {
			return fmt.Errorf("periodic job %q: %w", spec.Name, err)
		}
		if err := d.seal(s.Crypt); err != nil {
			return fmt.Errorf("periodic job %q: %w", spec.Name, err)
		}
		if err := s.write(ctx, d, keys.PeriodicJob(spec.Namespace, spec.Name, cluster)); err != nil {
			return fmt.Errorf("write periodic job %q: %w", spec.Name, err)
		}
	}
	return s.changed(ctx)
}

// spaceOf is where an entry goes that names no namespace: where those of Ruby are. Ruby's have a field retry since it has
// namespaces, and keep it when troupe writes the same entry.
func spaceOf(all []*Entry) string {
	space := usualSpace
	for _, e := range all {
		if _, retry := e.fields["retry"]; e.Namespace != "" && (retry || !e.Own) {
			return usualSpace
		}
		if e.Namespace == "" {
			space = ""
		}
	}
	return space
}

// write writes an entry. What it has had before it was written does not come again: the tick before
// now has its mark, if the entry is new or has another line.
func (s *Store) write(ctx context.Context, d *draft, key string) error {
	was, err := s.Redis.HMGet(ctx, key, "cron", "status").Result()
	if err != nil {
		return err
	}
	status := "enabled"
	if d.spec.Disabled {
		status = "disabled"
	}
	_, err = s.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		if last := d.line.Prev(time.Now()); was[0] != d.hash["cron"] && !last.IsZero() {
			begin(ctx, p, key, last)
		}
		p.HSet(ctx, key, d.fields(d.spec.Namespace))
		p.HSetNX(ctx, key, "status", status)
		p.SAdd(ctx, keys.PeriodicSet(d.spec.Namespace), key)
		return nil
	})
	return err
}

// begin marks tick as done, so that the entry goes on after it.
func begin(ctx context.Context, p redis.Pipeliner, key string, tick time.Time) {
	last, _ := job.EncodeJSON(Tick{At: tick, What: "written"}) // texts of ours
	p.HSet(ctx, key, "troupe_last", last)
	p.ZAdd(ctx, keys.PeriodicMarks(key), markOf(tick))
}

func markOf(tick time.Time) redis.Z {
	return redis.Z{Score: float64(tick.Unix()), Member: tick.UTC().Format(markForm)}
}

// Remove deletes entries and what is known of their ticks. Jobs that they have pushed stay.
func (s *Store) Remove(ctx context.Context, list ...*Entry) error {
	_, err := s.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, e := range list {
			p.SRem(ctx, keys.PeriodicSet(e.Namespace), e.key)
			p.Unlink(ctx, e.key, keys.PeriodicMarks(e.key), keys.PeriodicHistory(e.key))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("remove periodic jobs: %w", err)
	}
	return s.changed(ctx)
}

// Enable has the ticks of e push from now on, and not what it has missed; Disable has them not push.
func (s *Store) Enable(ctx context.Context, e *Entry, enabled bool) error {
	_, err := s.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		status := "disabled"
		if enabled {
			status = "enabled"
			if e.line != nil {
				if last := e.line.Prev(time.Now()); last.After(e.Mark) {
					begin(ctx, p, e.key, last)
				}
			}
		}
		p.HSet(ctx, e.key, "status", status)
		if e.Shared {
			p.HSet(ctx, keys.SchedulerStates, e.Name, fmt.Sprintf(`{"enabled":%t}`, enabled))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("change periodic job %q: %w", e.Name, err)
	}
	return s.changed(ctx)
}

// changed has the leader read the entries again at once; without that it does so each 30 s.
func (s *Store) changed(ctx context.Context) error {
	return s.Redis.Publish(ctx, keys.Wakeup, keys.PeriodicChanged).Err()
}
