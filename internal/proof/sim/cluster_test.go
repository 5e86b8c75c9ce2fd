package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// In a part of the plans Redis is a cluster: one master that serves all slots, and refuses
// what touches more than one. So each queue has a place of its own, and a job that leaves
// its slot is written first and taken away after that.

const nodeAddr = "127.0.0.1:7000"

// newClient makes a client of owner o.
func (w *world) newClient(o *owner) redis.UniversalClient {
	one := w.redisOptions(o)
	if !w.plan.Cluster {
		return redis.NewClient(one)
	}
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{nodeAddr}, Dialer: one.Dialer, DialerRetries: one.DialerRetries,
		Protocol: one.Protocol, DisableIdentity: true, MaxRetries: -1, MaxRedirects: -1, PoolSize: one.PoolSize,
		MinRetryBackoff: one.MinRetryBackoff, MaxRetryBackoff: one.MaxRetryBackoff,
	})
}

// node answers what a client of a cluster asks about it.
func node(words []string) []byte {
	host, port, _ := strings.Cut(nodeAddr, ":")
	switch {
	case strings.EqualFold(words[0], "command"):
		return []byte("*0\r\n") // go-redis knows where the keys are
	case len(words) == 2 && strings.EqualFold(words[1], "slots"):
		return fmt.Appendf(nil, "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$%d\r\n%s\r\n:%s\r\n$2\r\nid\r\n", len(host), host, port)
	case len(words) == 2 && strings.EqualFold(words[1], "info"):
		const state = "cluster_state:ok\r\n"
		return fmt.Appendf(nil, "$%d\r\n%s\r\n", len(state), state)
	}
	return []byte("-ERR unknown subcommand\r\n")
}

// aboutNode reports whether a command is one for node.
func aboutNode(words []string) bool {
	return strings.EqualFold(words[0], "cluster") || strings.EqualFold(words[0], "command")
}

// keysOf are the keys of a command.
func keysOf(words []string) []string {
	switch strings.ToLower(words[0]) {
	case "eval", "evalsha":
		n, _ := strconv.Atoi(words[2])
		return words[3 : 3+n]
	case "ping", "info", "publish", "subscribe", "unsubscribe", "multi", "exec", "discard", "script", "client", "acl", "time",
		"scan", "auth", "select", "config", "memory":
		return nil
	case "blmove", "lmove", "rename":
		return words[1:3]
	case "del", "unlink", "exists", "touch", "mget", "sunion", "sinter":
		return words[1:]
	}
	return words[1:min(2, len(words))]
}

// tag is the part of a key that tells its slot.
func tag(key string) string {
	if _, rest, found := strings.Cut(key, "{"); found {
		if in, _, closed := strings.Cut(rest, "}"); closed && in != "" {
			return in
		}
	}
	return key
}

// crossSlot refuses commands with keys of several slots; nil is no refusal.
func (w *world) crossSlot(words []string) []byte {
	if !w.plan.Cluster {
		return nil
	}
	for i, all := 1, keysOf(words); i < len(all); i++ {
		if tag(all[i]) != tag(all[0]) {
			w.fail("a command has keys of several slots: %s", strings.Join(all, " "))
			return []byte("-CROSSSLOT Keys in request don't hash to the same slot\r\n")
		}
	}
	return nil
}

// gap is the time between the two steps of a move out of a slot.
type gap struct {
	from string // where the job is to be taken away
	by   *owner
	at   time.Time
	late bool // the connection of the first step was gone already, or Redis has fallen back
}

// struck reports whether a fault may keep the second step from following.
func (g *gap) struck() bool {
	return g.late || g.by.dead || g.by.faulted.Add(3*lease).After(g.at)
}

// twoSteps follows the moves of a job out of a slot. It may stand in two places from the
// first step on, until the second takes it away. If it goes on from there instead, it is
// there twice for good, and a fault must have struck between the steps.
func (b *book) twoSteps(o *owner, words []string, s *state, old, gone, came []string) {
	from := slices.Clone(gone)
	s.gaps = slices.DeleteFunc(s.gaps, func(g gap) bool {
		i := slices.Index(from, g.from)
		if i < 0 {
			return false
		}
		from = slices.Delete(from, i, i+1)
		if len(came) > 0 {
			b.twice(s, g)
		}
		return true
	})
	g := gap{by: o, at: time.Now(), late: b.late}
	if len(old) == 0 && len(came) == 1 && stepOf(words) == "put" && g.struck() {
		s.stray = true // it was done elsewhere before the first step of its process came, and may run once more
		s.hits++
	}
	if len(old) == 0 || len(gone) > 0 {
		return
	}
	for i := range came { // more than one: of a job that Redis had twice
		b.firstStep(g, words, s, old, came[i:])
	}
}

// firstStep notes a gap of a job that a first step has written to the first of came.
func (b *book) firstStep(g gap, words []string, s *state, old, came []string) {
	switch stepOf(words) {
	case "put":
		dead := keysOf(words)[0] == keys.Dead
		still := slices.DeleteFunc(slices.Clone(old), s.between)
		g.from = cmp.Or(b.claimOf(g.by, dead, still), b.claimOf(g.by, dead, old))
		if len(still) < len(old) && g.from != "" && b.claimOf(g.by, dead, still) == g.from {
			s.hits++ // the process has it twice, and this may be the step of either
		}
		g.late = g.late || b.claims(g.by, old) > 1
	case "lpush", "zadd":
		ways := 0
		for _, place := range old {
			if !isMoving(place) {
				continue
			}
			if ways++; g.from == "" || !s.between(place) {
				g.from = place
			}
		}
		g.late = g.late || ways > 1 // a move before this one was not finished, which was decided then
	case "restore": // behind a first step that the fallback has not undone; the second follows
		if b.w.fell.IsZero() || b.claimOf(g.by, false, came) == "" {
			return
		}
		g.from, g.late = came[0], true
	default:
		return
	}
	b.w.seen["move in two steps"]++
	for _, before := range s.gaps { // who takes over from one that was struck repeats its step
		g.late = g.late || before.from == g.from && before.struck()
	}
	if g.from == "" || s.between(g.from) || b.late { // a late step may find the job a move further
		b.twice(s, g)
		return
	}
	s.gaps = append(s.gaps, g)
}

// between reports whether the job is between the steps of a move out of a place.
func (s *state) between(place string) bool {
	return slices.ContainsFunc(s.gaps, func(g gap) bool { return g.from == place })
}

// twice notes that a job is in Redis once more.
func (b *book) twice(s *state, g gap) {
	s.copies++
	s.hits++
	b.w.seen["job twice: a fault between two steps"]++
	if !g.struck() {
		b.w.fail("%s is there twice, written by %s, to which nothing has happened", s.name, g.by.name)
	}
}

// claimOf is where the owner has a job in progress; with others it may be a rescuer's.
func (b *book) claimOf(o *owner, others bool, places []string) string {
	found := ""
	for _, place := range places {
		id, ok := strings.CutPrefix(place, "claim ")
		identity, _, _ := strings.Cut(id, "#")
		switch {
		case !ok:
		case b.owners[identity].owner == o:
			return place
		case others:
			found = place
		}
	}
	return found
}

// minus is a without b.
func minus(a, b []string) []string {
	left := slices.Clone(a)
	for _, place := range b {
		if i := slices.Index(left, place); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	return left
}

// isMoving reports whether a place is the way from a set to a queue.
func isMoving(place string) bool {
	return strings.HasPrefix(place, keys.Moving(keys.Retry)) || strings.HasPrefix(place, keys.Moving(keys.Schedule))
}

// isHeld reports whether a key is that of the jobs that a rule holds.
func isHeld(key string) bool {
	_, rest, ok := strings.Cut(key, "held:l")
	return ok && strings.HasPrefix(key, "troupe:") && rest != ""
}

// isQueue reports whether a place is a queue, or the suspects of one.
func isQueue(place string) bool {
	return strings.HasPrefix(place, "queue:") || strings.HasPrefix(place, "{queue:")
}

// cutTag takes the tag off what follows the name of a key; slot is its slot.
func cutTag(rest string) (slot keys.Slot, id string) {
	if in, ok := strings.CutPrefix(rest, "{queue:"); ok {
		queue, id, _ := strings.Cut(in, "}:")
		return keys.SlotOf(queue, true), id
	}
	return keys.Slot{}, rest
}
