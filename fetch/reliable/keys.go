//go:build claims

package reliable

import "github.com/troupehq/troupe/internal/keys"

// slot names the keys of the places of one slot: of all queues on one server, of a
// single queue on a cluster, where they carry its tag.
type slot struct {
	tag     string // "{queue:NAME}", "" on one server
	cluster bool
}

func slotOf(queue string, cluster bool) slot {
	if !cluster {
		return slot{}
	}
	return slot{tag: "{" + keys.Queue(queue) + "}", cluster: true}
}

func (s slot) join(name, rest string) string {
	if s.tag != "" {
		name += ":" + s.tag
	}
	if rest != "" {
		name += ":" + rest
	}
	return name
}

// place is the hash that names every list that owner id has jobs in.
func (s slot) place(id string) string { return s.join("troupe:inprogress", id) }

// list is the list that is named by a field of the place.
func (s slot) list(id, field string) string { return s.join("troupe:claim", id+":"+field) }

// registry is the hash: owner id -> layout and queues of its place.
func (s slot) registry() string { return s.join("troupe:places", "") }

// tries is the hash of the jobs that could not be read.
func (s slot) tries() string { return s.join("troupe:toolarge", "") }

// suspects is the list in which suspects of a queue wait, in the queue's slot.
func (s slot) suspects(queue string) string {
	if s.cluster {
		return keys.ClusterSuspects(queue)
	}
	return keys.Queue(keys.Suspects(queue))
}

// common are the keys of an owner that lie in one slot of their own on a cluster.
type common struct {
	lease    string // a string that lives as long as its owner gives signs of life
	expiries string // zset: id -> ms of the end of its lease, an index
	owners   string // hash: id -> layout and queues; on one server the registry of places
}

func commonOf(id string, cluster bool) common {
	tag := "troupe"
	if cluster {
		tag = "{troupe}"
	}
	return common{lease: tag + ":lease:" + id, expiries: tag + ":expiries", owners: tag + ":places"}
}
