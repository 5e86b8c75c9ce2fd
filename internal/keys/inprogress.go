package keys

import (
	"regexp"
	"strings"
)

// Layout is the version of what fetchers write to Redis; the registry names it.
const Layout = 2

// Slot names the keys of jobs in progress in one slot: those of all queues on one server,
// of a single queue on a cluster, where they carry its tag. The zero Slot is the one of a
// server.
type Slot struct {
	tag     string // "{queue:NAME}", "" on one server
	cluster bool
}

// SlotOf is the slot of a queue.
func SlotOf(queue string, cluster bool) Slot {
	if !cluster {
		return Slot{}
	}
	return Slot{tag: "{" + Queue(queue) + "}", cluster: true}
}

func (s Slot) join(name, rest string) string {
	if s.tag != "" {
		name += ":" + s.tag
	}
	if rest != "" {
		name += ":" + rest
	}
	return name
}

// Index is the hash that names every list in which fetcher id has jobs: field -> queue and
// ms since the epoch; the field "!" holds its generation and the number of its last call, or the fence.
func (s Slot) Index(id string) string { return s.join("troupe:inprogress", id) }

// List is the list that a field of the place names.
func (s Slot) List(id, field string) string {
	return s.join(strings.TrimSuffix(ListPrefix, ":"), id+":"+field)
}

// ListPrefix is the prefix of the keys of all Lists.
const ListPrefix = "troupe:claim:"

// Owned is what the name of a List says.
type Owned struct {
	Slot  Slot
	ID    string // of the fetcher
	Field string
	Queue string // of a waiting list, on a cluster of each list; "" for other claims
}

var (
	ofOwner = regexp.MustCompile(`#.*\.[0-9]+$`)
	ofField = regexp.MustCompile(`^(?:[0-9]+\.[0-9]+$|w[0-9]*:)`)
)

// OwnersOf takes the name of a List apart. Names of capsules and queues may be such that several
// fetchers could have it; none can have what is no name of a List.
func OwnersOf(key string, cluster bool) (all []Owned) {
	rest, _ := strings.CutPrefix(key, ListPrefix)
	var s Slot
	queue := ""
	if cluster {
		tag, after, ok := strings.Cut(rest, "}:")
		name, tagged := strings.CutPrefix(tag, "{"+Queue(""))
		if !ok || !tagged {
			return nil
		}
		rest, queue, s = after, name, SlotOf(name, true)
	}
	for i, c := range rest {
		if c != ':' || !ofOwner.MatchString(rest[:i]) || !ofField.MatchString(rest[i+1:]) {
			continue
		}
		o := Owned{Slot: s, ID: rest[:i], Field: rest[i+1:], Queue: queue}
		if o.Field[0] == 'w' {
			_, o.Queue, _ = strings.Cut(o.Field, ":")
		}
		all = append(all, o)
	}
	return all
}

// Registry is the hash: fetcher id -> layout and queues of its place, as JSON.
func (s Slot) Registry() string { return s.join("troupe:places", "") }

// Unread is the hash of jobs that could not be read, as they are larger than the
// connection carries: length and digest -> tries.
func (s Slot) Unread() string { return s.join("troupe:unread", "") }

// Suspects is the list in which suspects of a queue wait.
func (s Slot) Suspects(queue string) string {
	if s.cluster {
		return ClusterSuspects(queue)
	}
	return Queue(Suspects(queue))
}

// Common are the keys of a fetcher that lie in one slot of their own on a cluster.
type Common struct {
	Lease    string // a string that lives as long as the fetcher gives signs of life
	Expiries string // zset: fetcher id, score = end of its lease in ms; an index
	Owners   string // hash: fetcher id -> layout and queues; on one server the registry
}

// CommonOf names them.
func CommonOf(id string, cluster bool) Common {
	tag := "troupe"
	if cluster {
		tag = "{troupe}"
	}
	return Common{Lease: tag + ":lease:" + id, Expiries: tag + ":expiries", Owners: tag + ":places"}
}

// OldRegistries are the registries of the layout before this one, that of fetchers and that
// of leases.
func OldRegistries(cluster bool) []string {
	if cluster {
		return []string{"{troupe}:procs", "{troupe}:leases"}
	}
	return []string{"troupe:procs", "troupe:leases"}
}
