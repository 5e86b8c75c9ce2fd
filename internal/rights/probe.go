// Package rights asks a Redis, at the start, whether its user may do all that the
// daemon does, so that a daemon without a right says so instead of running nothing.
//
// It asks by calls in a MULTI without an EXEC: Redis looks at the rights when it
// queues a command, and carries none of them out. That works for every user on
// every version, where ACL DRYRUN needs a right of its own and Redis 7.
package rights

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

// Daemon is what the needed rights depend on.
type Daemon struct {
	Identity string
	Queues   []string // of the capsules of Sidekiq, bare names; none without one
	Others   []Other  // other systems

	Reliable bool // a capsule fetches with fetch.NewReliable
	Basic    bool // a capsule fetches with fetch.NewBasic
	Iterable bool // a class is iterable
	Metrics  bool // metrics are on

	onCluster bool
}

// Other is a system that keeps what Sidekiq has in its keys under other names.
type Other struct {
	Queues []string
	Key    func(key string) string
}

// Check asks for all rights. err is an *Error, of the first server that lacks one,
// with all that is missing there, also of what the daemon could do without; nil
// where only such is missing, which the warnings name. A server that is away, or
// too busy to tell, passes: that is a state like any other. It takes two round trips.
func Check(ctx context.Context, rdb redis.UniversalClient, d Daemon) (warnings []string, err error) {
	switch rdb := rdb.(type) {
	case *redis.Client:
		return check(ctx, rdb, &d, d.is()|single)
	case *redis.ClusterClient: // each node has users of its own
		d.onCluster = true
		var mu sync.Mutex
		_ = rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			w, e := check(ctx, node, &d, d.is()|cluster)
			mu.Lock()
			defer mu.Unlock()
			warnings = append(warnings, w...)
			if err == nil {
				err = e
			}
			return nil
		})
		slices.Sort(warnings)
		return slices.Compact(warnings), err
	}
	return nil, nil
}

// is tells what d is.
func (d *Daemon) is() (is kind) {
	for _, f := range []struct {
		have bool
		kind kind
	}{{d.Reliable, reliable}, {d.Basic, basic}, {d.Iterable, iterable}, {d.Metrics, metrics}} {
		if f.have {
			is |= f.kind
		}
	}
	return is
}

func check(ctx context.Context, rdb *redis.Client, d *Daemon, is kind) (warnings []string, err error) {
	return askServer(ctx, rdb, "that the daemon needs", true, func(a *answers, p redis.Pipeliner) {
		a.askCommands(ctx, p, commands, is)
		a.ask(ctx, p, d, is)
	})
}

// askServer asks one server, in a MULTI if that is what it may be asked for. The MULTI ends with its
// connection.
func askServer(ctx context.Context, rdb *redis.Client, purpose string, inMulti bool, ask func(*answers, redis.Pipeliner)) (warnings []string, err error) {
	conn := rdb.EphemeralConn()
	defer func() { _ = conn.Close() }()
	var whoami, exec, multi *redis.Cmd
	_, _ = conn.Pipelined(ctx, func(p redis.Pipeliner) error { // the errors are in the commands
		whoami = p.Do(ctx, "ACL", "WHOAMI")
		if inMulti {
			exec, multi = p.Do(ctx, "EXEC"), p.Do(ctx, "MULTI")
		}
		return nil
	})
	a := &answers{purpose: purpose}
	if inMulti {
		a.first, a.queued = map[string]*redis.Cmd{"EXEC": exec, "MULTI": multi}, multi.Err() == nil
		if !a.queued && denied(multi.Err()) == "" && !unknown(multi.Err()) {
			return nil, nil // away
		}
	}
	_, _ = conn.Pipelined(ctx, func(p redis.Pipeliner) error {
		ask(a, p)
		return nil
	})
	user, _ := whoami.Text()
	user = cmp.Or(user, rdb.Options().Username, "default")
	return a.verdict(redisconn.Addr(rdb), user)
}

// answers are what a server said.
type answers struct {
	purpose  string
	queued   bool // within a MULTI
	first    map[string]*redis.Cmd
	unasked  []string // rules
	commands []answer[command]
	keys     []answer[names]
	channels []answer[names]
}

// answer is one of a table's entry.
type answer[T any] struct {
	to   *T
	name string
	cmds []*redis.Cmd // each asks for it
}

const (
	noScript = "0000000000000000000000000000000000000000" // the hash of none
	probeKey = "troupe:probe"                             // never written
)

// askCommands asks for the commands of a table that a user of this kind needs.
func (a *answers) askCommands(ctx context.Context, p redis.Pipeliner, table []command, is kind) {
	for i := range table {
		c := &table[i]
		switch cmd, known := a.first[c.name]; {
		case c.only&^is != 0:
		case known:
			a.commands = append(a.commands, answer[command]{c, c.name, []*redis.Cmd{cmd}})
		case c.queued && !a.queued:
			a.unasked = append(a.unasked, "+"+strings.ToLower(c.name))
		default:
			a.commands = append(a.commands, answer[command]{c, c.name, []*redis.Cmd{p.Do(ctx, c.words()...)}})
		}
	}
}

// ask asks for all keys and channels that a daemon may need that is such a one.
func (a *answers) ask(ctx context.Context, p redis.Pipeliner, d *Daemon, is kind) {
	askKeys := func(n *names, list []string) {
		for _, key := range list { // EVALSHA reads and writes; it may be missing itself
			a.keys = append(a.keys, answer[names]{n, key, []*redis.Cmd{
				p.Do(ctx, "EVALSHA", noScript, 1, key), p.Do(ctx, "EXISTS", key), p.Do(ctx, "EXPIRE", key, "x"),
			}})
		}
	}
	for i := range keyNames {
		n := &keyNames[i]
		if n.only&^is != 0 {
			continue
		}
		if n.own || len(d.Queues) > 0 || len(d.Others) == 0 {
			askKeys(n, n.list(d))
		}
		for _, other := range d.Others {
			if n.own {
				break
			}
			there, of := *n, *d
			there.rule, of.Queues = other.Key(n.rule), other.Queues
			list := n.list(&of)
			renamed := make([]string, len(list))
			for i, key := range list {
				renamed[i] = other.Key(key)
			}
			askKeys(&there, renamed)
		}
	}
	for i := range channelNames {
		switch n := &channelNames[i]; {
		case n.only&^is != 0:
		case !a.queued:
			a.unasked = append(a.unasked, "&"+n.rule)
		default:
			for _, channel := range n.list(d) {
				a.channels = append(a.channels, answer[names]{n, channel, []*redis.Cmd{
					p.Do(ctx, "SUBSCRIBE", channel), p.Do(ctx, "PUBLISH", channel, "x"),
				}})
			}
		}
	}
}

// words is the call with which the right to c is tried.
func (c *command) words() (words []any) {
	for _, word := range append(strings.Split(c.name, "|"), strings.Fields(c.args)...) {
		switch word {
		case "K":
			word = probeKey
		case "C":
			word = keys.Wakeup
		case "S":
			word = noScript
		}
		words = append(words, word)
	}
	return words
}
