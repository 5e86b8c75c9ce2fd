package fetch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// slotMove moves the slot of a key from its master to another one.
type slotMove struct {
	t          *testing.T
	slot       int64
	from, to   *redis.Client
	fromID, id string
	others     []*redis.Client
}

func newSlotMove(t *testing.T, rdb *redis.ClusterClient, key string) *slotMove {
	t.Helper()
	ctx := t.Context()
	m := &slotMove{t: t, slot: rdb.ClusterKeySlot(ctx, key).Val()}
	from := harness.Must(rdb.MasterForKey(ctx, key))(t)
	for line := range strings.Lines(from.ClusterNodes(ctx).Val()) {
		words := strings.Fields(line)
		if !strings.Contains(words[2], "master") || len(words) < 9 { // without slots
			continue
		}
		addr, _, _ := strings.Cut(words[1], "@")
		node := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
		t.Cleanup(func() { _ = node.Close() })
		switch {
		case addr == from.Options().Addr:
			m.from, m.fromID = node, words[0]
		case m.to == nil:
			m.to, m.id = node, words[0]
		default:
			m.others = append(m.others, node)
		}
	}
	return m
}

func (m *slotMove) do(node *redis.Client, args ...any) {
	m.t.Helper()
	if err := node.Do(m.t.Context(), args...).Err(); err != nil {
		m.t.Fatalf("%v: %v", args, err)
	}
}

// begin lets both nodes know: from here on the scripts of the slot are refused as soon as
// one of their keys has moved.
func (m *slotMove) begin() {
	m.do(m.to, "cluster", "setslot", m.slot, "importing", m.fromID)
	m.do(m.from, "cluster", "setslot", m.slot, "migrating", m.id)
}

// keys moves up to n keys, the first ones by name, and tells how many were left before.
func (m *slotMove) keys(n int) int {
	m.t.Helper()
	names := m.from.ClusterGetKeysInSlot(m.t.Context(), int(m.slot), 1000).Val()
	slices.Sort(names)
	host, port, _ := strings.Cut(m.to.Options().Addr, ":")
	for _, name := range names[:min(n, len(names))] {
		m.do(m.from, "migrate", host, port, name, 0, 5000)
	}
	return len(names)
}

func (m *slotMove) end() {
	for _, node := range append([]*redis.Client{m.to, m.from}, m.others...) {
		m.do(node, "cluster", "setslot", m.slot, "node", m.id)
	}
}

// While a slot moves, its queue and what is in progress of it go with it: jobs are taken,
// acked, retried and waited for again when it has moved, and none is lost or runs twice.
func TestASlotThatMoves(t *testing.T) {
	cluster := redistest.StartCluster(t)
	first := cluster.Client()
	defer func() { _ = first.Close() }()
	o := *first.Options()
	o.MaxRedirects = 3
	rdb := redis.NewClusterClient(&o)
	defer func() { _ = rdb.Close() }()
	for round := range 3 {
		own := redis.NewClusterClient(&o)
		defer func() { _ = own.Close() }()
		ctx := t.Context()
		queue := fmt.Sprint("moving", round)
		f := member(t, own, fmt.Sprint("h:2:", round), queue, "beside")
		fillQueue(t, rdb, queue, 40)
		held := mustTake(t, f, 20)
		_ = f.Wait(ctx, 20*time.Millisecond) // its waits are open
		m := newSlotMove(t, rdb, "queue:"+queue)
		m.begin()
		left := m.keys(round)
		if left == 0 {
			t.Fatal("nothing is to move")
		}
		seen := make(map[string]int)
		note := func(units []Unit) {
			for _, u := range units {
				seen[string(u.Payload)]++
			}
		}
		note(held)
		acked := false
		try := func() {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			var acks []Unit
			if !acked {
				acks = held[:10]
			}
			units, err := f.Take(ctx, 5, acks)
			acked = acked || err == nil
			note(units)
			for len(units) > 0 {
				if _, err = f.Take(ctx, 0, units); err == nil {
					break
				}
				m.keys(1000)
				m.end()
			}
			_ = f.Wait(ctx, 20*time.Millisecond)
			_ = f.Renew(ctx)
		}
		for range 3 {
			try()
		}
		m.keys(1000)
		m.end()
		harness.Await(t, "all has come", func() bool {
			try()
			return len(seen) == 40 && acked
		})
		harness.Await(t, "it settles", func() bool {
			var moves []Move
			for i, u := range held[10:] {
				moves = append(moves, Move{Unit: u, To: []Destination{ToRetry, ToQueue}[i%2], Score: 1, Payload: fmt.Appendf(nil, "%d after %s", round, u.Payload)})
			}
			_, err := f.Settle(ctx, moves)
			return err == nil
		})
		harness.OK(t, rdb.LPush(ctx, "queue:"+queue, "pushed afterwards").Err())
		again := 0
		harness.Await(t, "what went back comes, and what is pushed", func() bool {
			units, err := f.Take(ctx, 10, nil)
			again += len(units)
			if err == nil {
				_, err = f.Take(ctx, 0, units)
			}
			_ = f.Wait(ctx, 20*time.Millisecond)
			return err == nil && again == 6
		})
		for job, n := range seen {
			if n != 1 {
				t.Errorf("job %s ran %d times", job, n)
			}
		}
		harness.Equal(t, "are in progress", len(inProgress(t, rdb, f.cur.indexes[0])), 0)
		if left, err := f.Close(ctx); left != 0 || err != nil {
			t.Errorf("close: %d, %v", left, err)
		}
	}
}

// A master dies and its replica takes over: what it had heard of is settled, what it had
// not is written back.
func TestAMasterFailsOver(t *testing.T) {
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client()
	defer func() { _ = rdb.Close() }()
	ctx := t.Context()
	own := cluster.Client()
	defer func() { _ = own.Close() }()
	f := member(t, own, "h:2:bb", "a")
	fillQueue(t, rdb, "a", 10)
	units := mustTake(t, f, 5)
	master := harness.Must(rdb.MasterForKey(ctx, "queue:a"))(t)
	harness.OK(t, master.Wait(ctx, 1, 5*time.Second).Err())
	cluster.Node(master.Options().Addr).Kill()
	harness.Await(t, "the replica has taken over", func() bool {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		rdb.ReloadState(ctx)
		own.ReloadState(ctx)
		_, err := f.Take(ctx, 0, units[:2])
		return err == nil
	})
	harness.Await(t, "two are settled", func() bool { // all nodes have to hear of the new master
		_, err := f.Settle(ctx, []Move{{Unit: units[2], To: ToRetry, Score: 1}, {Unit: units[3], To: ToQueue}})
		if err != nil && !redisconn.HasPrefix(err, "CLUSTERDOWN") {
			t.Fatalf("settle: %v", err)
		}
		return err == nil
	})
	harness.Await(t, "the last is acked", func() bool {
		_, err := f.Take(ctx, 0, units[4:])
		return err == nil
	})
	var got []string
	harness.Await(t, "the rest comes", func() bool {
		more, err := f.Take(ctx, 10, nil)
		got = append(got, payloads(more)...)
		if err == nil {
			_, err = f.Take(ctx, 0, more)
		}
		return err == nil && len(got) >= 6
	})
	if slices.Sort(got); !slices.Equal(got, []string{"3", "5", "6", "7", "8", "9"}) {
		t.Errorf("then took %q", got)
	}
	harness.Equal(t, "retries", rdb.ZCard(ctx, "retry").Val(), 1)
}
