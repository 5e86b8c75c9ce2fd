package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// IsCluster reports whether a URL names a Redis Cluster: redis+cluster://, or
// rediss+cluster:// for TLS, with more nodes as parameters addr.
func IsCluster(raw string) bool {
	return strings.HasPrefix(raw, "redis+cluster:") || strings.HasPrefix(raw, "rediss+cluster:")
}

// OnCluster reports whether a client is one of a Redis Cluster: of a router to many masters, where
// one step cannot touch keys of two slots.
func OnCluster(rdb redis.UniversalClient) bool {
	_, ok := rdb.(*redis.ClusterClient)
	return ok
}

// ClusterURL is the URL of a cluster that is known by the addresses of nodes.
func ClusterURL(addrs []string) string {
	u := url.URL{Scheme: "redis+cluster", Host: addrs[0], RawQuery: url.Values{"addr": addrs[1:]}.Encode()}
	return u.String()
}

// Describe names what a URL leads to, for people: the URL without credentials
// and parameters, or the nodes of a cluster.
func Describe(raw string) string {
	if IsCluster(raw) {
		if o, err := parseCluster(raw); err == nil {
			return "cluster, known by " + strings.Join(o.Addrs, ", ")
		}
	}
	return Mask(raw)
}

func parseCluster(raw string) (*redis.ClusterOptions, error) {
	fault := func(reason string) error { return &URLError{URL: Mask(raw), Reason: reason} }
	plain := strings.Replace(raw, "+cluster:", ":", 1)
	bare, query, _ := strings.Cut(plain, "?")
	one, err := parse(bare)
	if bad, ok := errors.AsType[*URLError](err); ok {
		return nil, fault(bad.Reason)
	}
	if one.DB != 0 {
		return nil, fault("a cluster has database 0 only")
	}
	if strings.Contains(query, "@") {
		return nil, fault("an @ behind the host; " + encodeHint)
	}
	o, err := redis.ParseClusterURL(plain)
	if err != nil {
		return nil, fault(strings.TrimPrefix(err.Error(), "redis: "))
	}
	for _, addr := range o.Addrs {
		host, port, err := net.SplitHostPort(addr)
		n, _ := strconv.Atoi(port)
		if err != nil || host == "" || n < 1 || n > 65535 {
			return nil, fault("a node's address is not host:port")
		}
	}
	return o, nil
}

// checkCluster is Check for a cluster: each master has the version, keeps jobs
// when memory runs short, and all slots are served.
func checkCluster(ctx context.Context, rdb *redis.ClusterClient) (warnings []string, err error) {
	addr := Addr(rdb)
	info, err := rdb.ClusterInfo(ctx).Result()
	if err != nil {
		if noCluster(err) {
			if mode(ctx, rdb) == "cluster" {
				return nil, errHalfCluster(addr)
			}
			return nil, fmt.Errorf("redis at %s is no cluster: give it as redis://host:port", addr)
		}
		return nil, pingError(addr, err)
	}
	if state := infoField(info, "cluster_state"); state != "ok" {
		return nil, fmt.Errorf("the redis cluster at %s does not serve all slots (cluster_state is %s)", addr, state)
	}
	var mu sync.Mutex
	err = rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx).Result()
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			if f := Classify(err); f == Outage || f == Local {
				return fmt.Errorf("ask redis at %s for its version: %w", node.Options().Addr, err)
			}
			return nil // not allowed to ask
		}
		if infoField(info, "connected_slaves") == "0" {
			warnings = append(warnings, fmt.Sprintf("redis at %s, a master of the cluster, has no replica: "+
				"when it dies its queues stand still until it is back, and the whole cluster by default", node.Options().Addr))
		}
		return verdict(node.Options().Addr, info, &warnings)
	})
	return warnings, err
}

// mode is what the first node that answers says of itself: "cluster" or "standalone".
func mode(ctx context.Context, rdb *redis.ClusterClient) string {
	o := rdb.Options()
	for _, addr := range o.Addrs {
		node := redis.NewClient(&redis.Options{
			Addr: addr, Dialer: o.Dialer, TLSConfig: o.TLSConfig, Username: o.Username, Password: o.Password,
			CredentialsProvider: o.CredentialsProvider, PoolSize: 1, MaxRetries: -1,
		})
		info, err := node.Info(ctx).Result()
		_ = node.Close()
		if err == nil {
			return infoField(info, "redis_mode")
		}
	}
	return ""
}

// verdict classifies what INFO of one server says.
func verdict(addr, info string, warnings *[]string) error {
	if version := infoField(info, "redis_version"); TooOld(version) {
		return &VersionError{Addr: addr, Found: version}
	}
	if policy := infoField(info, "maxmemory_policy"); policy != "" && policy != "noeviction" {
		*warnings = append(*warnings, fmt.Sprintf("redis at %s has maxmemory-policy %s, expected noeviction: "+
			"when memory runs short it would throw jobs away", addr, policy))
	}
	return nil
}

// newCluster is a client that asks for the layout of the cluster when a node does not answer.
// go-redis itself does so once a minute, and after a MOVED, which a dead node does not send.
func newCluster(o *redis.ClusterOptions) *redis.ClusterClient {
	c := redis.NewClusterClient(o)
	Guard(c)
	c.AddHook(reloader{c})
	return c
}

type reloader struct{ c *redis.ClusterClient }

func (r reloader) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r reloader) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return r.look(ctx, next(ctx, cmd)) }
}

func (r reloader) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return r.look(ctx, next(ctx, cmds)) }
}

// look returns err. The layout comes in the background, five times a second at most.
func (r reloader) look(ctx context.Context, err error) error {
	if Classify(err) == Outage {
		r.c.ReloadState(ctx)
	}
	return err
}
