package scaletest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// claims begins the keys of lists of jobs in progress.
const claims = "troupe:claim:"

// found is one job on a node.
type found struct{ jid, key, node string }

func jidsOf(units []found) (jids []string) {
	for _, u := range units {
		jids = append(jids, u.jid)
	}
	return jids
}

// nodeUnits lists the jobs that one node has in queues, in progress and in sets,
// whatever its role.
func nodeUnits(ctx context.Context, addr string) (units []found, err error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: time.Second})
	defer func() { _ = rdb.Close() }()
	conn := rdb.Conn()
	defer func() { _ = conn.Close() }()
	if err := conn.ReadOnly(ctx).Err(); err != nil { // answer as a replica
		return nil, err
	}
	names, err := conn.Keys(ctx, "*").Result()
	if err != nil {
		return nil, err
	}
	replies := make([]*redis.Cmd, len(names))
	_, err = conn.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, name := range names {
			switch {
			case strings.HasPrefix(name, "queue:"):
				replies[i] = p.Do(ctx, "LRANGE", name, 0, -1)
			case strings.HasPrefix(name, claims):
				replies[i] = p.Do(ctx, "LRANGE", name, 0, -1)
			case name == keys.Retry || name == keys.Schedule || name == keys.Dead:
				replies[i] = p.Do(ctx, "ZRANGE", name, 0, -1)
			}
		}
		return nil
	})
	if err != nil && !errors.As(err, new(redis.Error)) {
		return nil, err
	}
	for i, reply := range replies {
		if reply == nil {
			continue
		}
		jobs, err := reply.StringSlice()
		if redis.HasErrorPrefix(err, "WRONGTYPE") && strings.HasPrefix(names[i], claims) { // a closed list
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, raw := range jobs {
			if job, err := troupe.ParsePayload([]byte(raw)); err == nil {
				units = append(units, found{job.JID(), names[i], addr})
			}
		}
	}
	return units, nil
}

// inProgress lists what is in progress on all masters.
func inProgress(ctx context.Context, cluster *redistest.Cluster) (units []found, err error) {
	rdb := cluster.Client() // its view is fresh
	defer func() { _ = rdb.Close() }()
	var mu sync.Mutex
	err = rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		all, err := nodeUnits(ctx, node.Options().Addr)
		mu.Lock()
		defer mu.Unlock()
		for _, u := range all {
			if strings.HasPrefix(u.key, claims) {
				units = append(units, u)
			}
		}
		return err
	})
	return units, err
}

// diagnose tells, when the test has failed, in which state it left the cluster:
// each node's view of it, how much is where, and where what is missing is.
func diagnose(t *testing.T, cluster *redistest.Cluster, missing func() []string, daemons []*actors.Daemon, log *tail) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		lost := missing()
		where := make(map[string][]string)
		for _, node := range cluster.Nodes {
			rdb := redis.NewClient(&redis.Options{Addr: node.Addr, MaxRetries: -1, DialTimeout: time.Second})
			view, err := rdb.ClusterNodes(ctx).Result()
			t.Logf("node %s (%v):\n%s", node.Addr, err, view)
			if err == nil {
				names := keys.CommonOf("", true)
				t.Logf("leases %v, registered %v", rdb.ZRangeWithScores(ctx, names.Expiries, 0, -1).Val(), rdb.HGetAll(ctx, names.Owners).Val())
			}
			_ = rdb.Close()
			units, err := nodeUnits(ctx, node.Addr)
			counts := make(map[string]int)
			for _, u := range units {
				counts[u.key]++
				if slices.Contains(lost, u.jid) {
					where[u.jid] = append(where[u.jid], u.key+" on "+u.node)
				}
			}
			t.Logf("it has (%v): %v", err, counts)
		}
		t.Logf("%d jobs are missing", len(lost))
		for _, jid := range lost[:min(len(lost), 50)] {
			t.Logf("%s is in %q", jid, where[jid])
		}
		for _, d := range daemons {
			t.Logf("%s: %+v", d.Identity(), d.Stats())
		}
		t.Logf("the end of the log:\n%s", log)
	})
}

// tail keeps the last lines of a log.
type tail struct {
	mu    sync.Mutex
	lines []string
}

func (l *tail) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines = append(l.lines, string(b)); len(l.lines) > 400 {
		l.lines = slices.Clone(l.lines[200:])
	}
	return len(b), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(strings.Join(l.lines, ""))
}
