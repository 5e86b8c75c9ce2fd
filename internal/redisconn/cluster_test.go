package redisconn

import (
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestClusterURLs(t *testing.T) {
	rdb := harness.Must(FromURL("rediss+cluster://u:pw@a:1?addr=b:2&addr=c:3&pool_size=77", Need{PoolSize: 9}))(t)
	defer func() { _ = rdb.Close() }()
	o := rdb.(*redis.ClusterClient).Options()
	if !slices.Equal(o.Addrs, []string{"a:1", "b:2", "c:3"}) || o.Username != "u" || o.Password != "pw" ||
		o.TLSConfig == nil || o.PoolSize != 77 || o.MaxRedirects != 0 || !o.ContextTimeoutEnabled {
		t.Errorf("not the daemon's options: %+v", o)
	}
	if url := ClusterURL([]string{"a:1", "b:2"}); CheckURL(url) != nil || Describe(url) != "cluster, known by a:1, b:2" {
		t.Errorf("%s: %v, %s", url, CheckURL(url), Describe(url))
	}
	for url, reason := range map[string]string{
		"redis+cluster://u:hunter2@h:1/3":               "database 0 only",
		"redis+cluster://u:hunter2@h:1?addr=b":          "unable to parse addr",
		"redis+cluster://u:hunter2@h:1?addr=x:y@b:2":    "an @ behind the host",
		"redis+cluster://u:hunter2@h:1?no_such_thing=1": "no_such_thing",
		"redis+cluster://h:99999":                       "port",
	} {
		_, err := FromURL(url, Need{})
		if err == nil || CheckURL(url) == nil || !strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestCheckLooksAtEveryMaster(t *testing.T) {
	rdb, c := redistest.NewCluster(t)
	ctx := t.Context()
	own := harness.Must(FromURL(c.URL(), Need{}))(t)
	defer func() { _ = own.Close() }()
	if warnings, err := Check(ctx, own); err != nil || len(warnings) != 0 {
		t.Errorf("%v, %v", warnings, err)
	}
	master := harness.Must(rdb.MasterForKey(ctx, "retry"))(t)
	policy := func(p string) {
		t.Helper()
		harness.OK(t, master.ConfigSet(ctx, "maxmemory-policy", p).Err())
	}
	policy("allkeys-lru")
	defer policy("noeviction")
	rdb.Set(ctx, "retry", "x", 0)
	warnings, err := Check(ctx, own)
	if len(warnings) != 1 || !strings.Contains(warnings[0], master.Options().Addr) || err == nil || !strings.Contains(err.Error(), `"retry" is a string`) {
		t.Errorf("%v, %v", warnings, err)
	}
	// taken for a single server, a node says what it is
	node := redis.NewClient(&redis.Options{Addr: c.Nodes[0].Addr})
	defer func() { _ = node.Close() }()
	if _, err := Check(ctx, node); err == nil || !strings.Contains(err.Error(), "redis+cluster://") {
		t.Errorf("a node alone: %v", err)
	}
	_, url := redistest.New(t)
	alone := harness.Must(FromURL("redis+cluster"+strings.TrimSuffix(strings.TrimPrefix(url, "redis"), url[strings.LastIndex(url, "/"):]), Need{}))(t)
	defer func() { _ = alone.Close() }()
	if _, err := Check(ctx, alone); err == nil || !strings.Contains(err.Error(), "no cluster") {
		t.Errorf("a single server given as a cluster: %v", err)
	}
}

// A node dies, and another one has taken over: the client asks for the layout at once, not
// within a minute.
func TestADeadNodeHasTheLayoutAskedFor(t *testing.T) {
	var layout atomic.Value
	node := func(addr string) string {
		host, port, _ := net.SplitHostPort(addr)
		return array(array(":0\r\n", ":16383\r\n", array(bulk(host), ":"+port+"\r\n", bulk("id"))))
	}
	heir := newServer(t, func(args []string) string {
		switch strings.ToLower(args[0]) {
		case "cluster":
			return layout.Load().(string)
		case "get":
			return bulk("here")
		}
		return "+OK\r\n"
	})
	dead := harness.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	layout.Store(node(dead.Addr().String()))
	_ = dead.Close()
	user := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{heir}})
	defer func() { _ = user.Close() }()
	own := derived(t, user, Need{}).(*redis.ClusterClient)
	if err := own.Get(t.Context(), "k").Err(); Classify(err) != Outage {
		t.Fatalf("the dead node answers: %v", err)
	}
	layout.Store(node(heir))
	harness.Await(t, "the new layout is asked for", func() bool { return own.Get(t.Context(), "k").Val() == "here" })
}

// What says that it is of a cluster and does not know CLUSTER was sent in a circle: to
// redis+cluster:// as one server, and back as a cluster.
func TestAnEndpointOfAClusterWithoutCLUSTER(t *testing.T) {
	half := redistest.Start(t, "--cluster-enabled", "yes", "--rename-command", "CLUSTER", "")
	one := redis.NewClient(&redis.Options{Addr: half.Addr})
	defer one.Close()
	many := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{half.Addr}})
	defer many.Close()
	for _, rdb := range []redis.UniversalClient{one, many} {
		_, err := Check(t.Context(), rdb)
		if err == nil || !strings.Contains(err.Error(), "does not know CLUSTER") {
			t.Errorf("%T: %v", rdb, err)
		}
	}
	whole, _ := redistest.New(t)
	none := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{whole.Options().Addr}})
	defer none.Close()
	if _, err := Check(t.Context(), none); err == nil || !strings.Contains(err.Error(), "is no cluster: give it as redis://") {
		t.Errorf("of a server that is no cluster: %v", err)
	}
}
