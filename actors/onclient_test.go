package actors_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

// trace notes what the hooks of all clients have seen.
type trace struct {
	mu      sync.Mutex
	clients int
	dialled map[string]bool           // the near ends of connections
	ran     map[string]map[*seer]bool // by command: the clients
}

// seer is the hook of one client.
type seer struct{ t *trace }

func newTrace() *trace {
	return &trace{dialled: map[string]bool{}, ran: map[string]map[*seer]bool{}}
}

func (t *trace) onClient(rdb redis.UniversalClient) {
	t.mu.Lock()
	t.clients++
	t.mu.Unlock()
	s := &seer{t}
	rdb.AddHook(s)
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(s) })
	}
}

// clientsThatRan counts the clients whose hook has seen the command.
func (t *trace) clientsThatRan(command string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.ran[command])
}

func (s *seer) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err == nil {
			s.t.mu.Lock()
			s.t.dialled[conn.LocalAddr().String()] = true
			s.t.mu.Unlock()
		}
		return conn, err
	}
}

func (s *seer) note(cmds ...redis.Cmder) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	for _, cmd := range cmds {
		if s.t.ran[cmd.Name()] == nil {
			s.t.ran[cmd.Name()] = map[*seer]bool{}
		}
		s.t.ran[cmd.Name()][s] = true
	}
}

func (s *seer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.note(cmd)
		return next(ctx, cmd)
	}
}

func (s *seer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.note(cmds...)
		return next(ctx, cmds)
	}
}

// untraced are the connections that have the name traced on a server and that no
// hook has dialled. A connection has its name only after its dial.
func (t *trace) untraced(tb testing.TB, server *redis.Client) (named int, unseen []string) {
	tb.Helper()
	list := harness.Must(server.ClientList(ctx).Result())(tb)
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range strings.Lines(list) {
		if !strings.Contains(line, " name=traced ") {
			continue
		}
		named++
		_, addr, _ := strings.Cut(line, " addr=")
		addr, _, _ = strings.Cut(addr, " ")
		if !t.dialled[addr] {
			unseen = append(unseen, strings.TrimSpace(line))
		}
	}
	return named, unseen
}

// Config.OnClient sees the clients of every way to wait before their first
// connection, and its hooks their commands.
func TestOnClientSeesEveryConnection(t *testing.T) {
	for name, tt := range map[string]struct {
		rule    string // of the daemon's user
		capsule actors.Capsule
		seen    map[string]int // by command: how many clients are to run it
	}{
		"one waiter":     {"+@all", actors.Capsule{}, map[string]int{"blmove": 1, "client": 2, "evalsha": 2, "ping": 1}},
		"without CLIENT": {"-client", actors.Capsule{}, map[string]int{"blmove": 1, "evalsha": 2, "ping": 1}},
		"two waiters":    {"+@all", actors.Capsule{Waiters: 2}, map[string]int{"blmove": 2, "evalsha": 2, "ping": 1}},
		"basic":          {"+@all", actors.Capsule{Fetch: fetch.NewBasic}, map[string]int{"brpop": 1, "evalsha": 1, "ping": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			server := testkit.NewServer(t)
			admin := server.Client
			harness.OK(t, admin.Do(ctx, "ACL", "SETUSER", "traced", "on", ">pw", "~*", "&*", "+@all", tt.rule).Err())
			if tt.rule == "-client" { // it is to have a name all the same
				harness.OK(t, admin.Do(ctx, "ACL", "SETUSER", "traced", "+client|setname").Err())
			}
			opt := server.Options()
			opt.Username, opt.Password, opt.ClientName = "traced", "pw", "traced"
			given := redis.NewClient(opt)
			t.Cleanup(func() { _ = given.Close() })
			tr := newTrace()
			s := script.New(t)
			k := testkit.Start(t, actors.Config{
				Redis: given, Registry: s.Registry(), OnClient: tr.onClient, Capsules: []actors.Capsule{tt.capsule},
			})
			harness.Must(client.New(admin).Push(ctx, script.OK()))(t)
			k.Await("the job is done", func() bool { return k.Stats().Processed == 1 })
			for command, n := range tt.seen {
				k.Await(command+" was seen", func() bool { return tr.clientsThatRan(command) >= n })
			}
			named, unseen := tr.untraced(t, admin)
			if named < 2 || len(unseen) > 0 {
				t.Errorf("of %d connections no hook has seen\n%s", named, strings.Join(unseen, "\n"))
			}
		})
	}
}

func TestOnClientSeesEveryConnectionOfACluster(t *testing.T) {
	admin, cluster := redistest.NewCluster(t)
	opt := *admin.Options()
	opt.ClientName = "traced"
	given := redis.NewClusterClient(&opt)
	t.Cleanup(func() { _ = given.Close() })
	tr := newTrace()
	s := script.New(t)
	k := testkit.Start(t, actors.Config{Redis: given, Registry: s.Registry(), OnClient: tr.onClient})
	harness.Must(client.New(admin).Push(ctx, script.OK()))(t)
	k.Await("the job is done", func() bool { return k.Stats().Processed == 1 })
	k.Await("a peek was seen", func() bool { return tr.clientsThatRan("blmove") > 0 && tr.clientsThatRan("evalsha") > 0 })
	for _, node := range cluster.Nodes {
		rdb := redis.NewClient(&redis.Options{Addr: node.Addr})
		_, unseen := tr.untraced(t, rdb)
		_ = rdb.Close()
		if len(unseen) > 0 {
			t.Errorf("no hook has seen\n%s", strings.Join(unseen, "\n"))
		}
	}
}

// Each shard has an OnClient of its own.
func TestOnClientOfShards(t *testing.T) {
	var shards []actors.Shard
	var traces []*trace
	for _, name := range []string{"a", "b"} {
		tr := newTrace()
		traces = append(traces, tr)
		shards = append(shards, actors.Shard{Name: name, Config: actors.Config{
			Redis: testkit.NewMemory(t).Client, Registry: new(troupe.Registry), OnClient: tr.onClient,
			Capsules: []actors.Capsule{{Queues: fetch.Strict{name}}},
		}})
	}
	g := harness.Must(actors.NewGroup(shards...))(t)
	harness.OK(t, g.Start(ctx))
	harness.Must(g.Stop(ctx))(t)
	for i, tr := range traces {
		if tr.clients == 0 || tr.clientsThatRan("ping") != 1 {
			t.Errorf("shard %d: %d clients, commands %v", i, tr.clients, tr.ran)
		}
	}
}
