package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Cluster is a Redis Cluster on loopback: three masters with a replica each.
type Cluster struct {
	Nodes []*Server
}

var sharedCluster = sync.OnceValues(func() (*Cluster, error) {
	c, err := startCluster()
	if err != nil {
		return nil, err
	}
	return c, c.bePatient()
})

var clusterTurn sync.Mutex // a cluster has one database

// NewCluster returns a client of the test binary's own cluster, empty, which
// the test has for itself until its end. A test that breaks nodes starts a
// cluster of its own with StartCluster.
func NewCluster(tb testing.TB) (*redis.ClusterClient, *Cluster) {
	tb.Helper()
	c, err := sharedCluster()
	if err != nil {
		Missing(tb, err)
	}
	clusterTurn.Lock()
	tb.Cleanup(clusterTurn.Unlock)
	rdb := c.Client()
	tb.Cleanup(func() { _ = rdb.Close() })
	err = rdb.ForEachMaster(context.Background(), func(ctx context.Context, node *redis.Client) error {
		return node.FlushAll(ctx).Err()
	})
	if err != nil {
		tb.Fatalf("flush the cluster: %v", err)
	}
	return rdb, c
}

// StartCluster runs a cluster of the test's own, for tests that kill nodes.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	c, err := startCluster()
	if err != nil {
		Missing(tb, err)
	}
	tb.Cleanup(c.remove)
	return c
}

// Client returns a client that nobody closes but the caller.
func (c *Cluster) Client() *redis.ClusterClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: c.Addrs(), MaxRedirects: -1,
		// Left to find out whether the server has these, two Conns of a client race.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// Addrs are the addresses of all nodes.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		addrs[i] = node.Addr
	}
	return addrs
}

// URL is the cluster's URL as a daemon is given it.
func (c *Cluster) URL() string {
	return "redis+cluster://" + c.Nodes[0].Addr + "?addr=" + strings.Join(c.Addrs()[1:], "&addr=")
}

// Node is the node with that address, nil if there is none.
func (c *Cluster) Node(addr string) *Server {
	for _, node := range c.Nodes {
		if node.Addr == addr {
			return node
		}
	}
	return nil
}

func (c *Cluster) remove() {
	for _, node := range c.Nodes {
		node.Kill()
		_ = os.RemoveAll(node.Dir)
	}
}

func startCluster() (c *Cluster, err error) {
	for _, program := range []string{"redis-server", "redis-cli"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, err
		}
	}
	c = &Cluster{}
	defer func() {
		if err != nil {
			c.remove()
		}
	}()
	for range 6 {
		node, err := startNode()
		if err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, node)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	args := append([]string{"--cluster", "create"}, c.Addrs()...)
	args = append(args, "--cluster-replicas", "1", "--cluster-yes")
	if out, err := exec.CommandContext(ctx, "redis-cli", args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("redis-cli --cluster create: %w\n%s", err, out)
	}
	return c, c.wait(ctx)
}

// wait returns when every node knows all slots and every replica follows its
// master.
func (c *Cluster) wait(ctx context.Context) error {
	for _, node := range c.Nodes {
		rdb := redis.NewClient(&redis.Options{Addr: node.Addr, MaxRetries: -1})
		for {
			info, _ := rdb.ClusterInfo(ctx).Result()
			repl, err := rdb.Info(ctx, "replication").Result()
			ok := err == nil && strings.Contains(info, "cluster_state:ok") &&
				(strings.Contains(repl, "connected_slaves:1") || strings.Contains(repl, "master_link_status:up"))
			if ok {
				break
			}
			select {
			case <-ctx.Done():
				_ = rdb.Close()
				return fmt.Errorf("the cluster does not form: %s%s", info, repl)
			case <-time.After(20 * time.Millisecond): // no signal tells it
			}
		}
		_ = rdb.Close()
	}
	return nil
}

// bePatient lets a node stand still for long before the others take it for dead.
// Nobody kills these nodes, but a busy machine may hold one up.
func (c *Cluster) bePatient() error {
	for _, node := range c.Nodes {
		rdb := redis.NewClient(&redis.Options{Addr: node.Addr, MaxRetries: -1})
		err := rdb.ConfigSet(context.Background(), "cluster-node-timeout", "30000").Err()
		_ = rdb.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func startNode() (*Server, error) {
	dir, err := os.MkdirTemp("", "troupe-redis-")
	if err != nil {
		return nil, err
	}
	for range 5 {
		port := freePort()
		if port == 0 {
			break
		}
		s := &Server{Addr: loopback(port), Dir: dir, args: []string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-config-file", "nodes.conf",
			"--repl-diskless-sync-delay", "0",
		}}
		if err := s.Restart(); err == nil {
			return s, nil
		}
	}
	_ = os.RemoveAll(dir)
	return nil, errors.New("no redis-server of a cluster did start")
}

// alone are clusters of one node that no test uses: a new one refuses writes
// for two seconds.
var alone = make(chan *Server, 64)

// Alone returns a cluster of one node that has all slots, empty, for the test
// alone. A plain client serves for looking at it, while a command that needs two
// slots is refused as on any cluster.
func Alone(tb testing.TB) *Server {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var s *Server
	select {
	case s = <-alone:
	default:
		var err error
		if s, err = startNode(); err != nil {
			Missing(tb, err)
		}
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	_ = rdb.ClusterAddSlotsRange(ctx, 0, 16383).Err() // a used one has them
	for rdb.Set(ctx, "x", 1, 0).Err() != nil {
		if ctx.Err() != nil {
			tb.Fatal("a cluster of one node does not serve")
		}
		time.Sleep(5 * time.Millisecond) // no signal tells that it serves
	}
	if err := rdb.FlushAll(ctx).Err(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if s.cmd == nil || tb.Failed() {
			s.Kill()
			_ = os.RemoveAll(s.Dir)
			return
		}
		alone <- s
	})
	return s
}
