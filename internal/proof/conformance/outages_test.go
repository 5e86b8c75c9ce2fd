package conformance

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// failover is an address behind which the master has changed: the first
// connection still gets what is a replica by now.
func failover(t *testing.T, replica, master string) (addr string, conns *atomic.Int64) {
	t.Helper()
	l := harness.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	conns = new(atomic.Int64)
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			target := master
			if conns.Add(1) == 1 {
				target = replica
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				_ = in.Close()
				continue
			}
			go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
			go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		}
	}()
	return l.Addr().String(), conns
}

func TestCheck41APushRefusedByAReplicaIsRepeatedOnceElsewhere(t *testing.T) {
	t.Parallel()
	master, replica := redistest.Start(t, "--repl-diskless-sync-delay", "0"), redistest.Start(t)
	reader := redis.NewClient(&redis.Options{Addr: replica.Addr, MaxRetries: -1})
	t.Cleanup(func() { _ = reader.Close() })
	host, port, _ := strings.Cut(master.Addr, ":")
	harness.OK(t, reader.ReplicaOf(t.Context(), host, port).Err())
	testkit.Await(t, "replication", func() bool {
		return strings.Contains(reader.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})

	addr, conns := failover(t, replica.Addr, master.Addr)
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = rdb.Close() })
	jid, err := client.New(rdb).PushClass(t.Context(), "Record", []any{1})
	if err != nil || jid == "" {
		t.Fatalf("push: %q, %v", jid, err)
	}
	s := siteOf(t, redis.NewClient(&redis.Options{Addr: master.Addr}), master.URL(0))
	t.Cleanup(func() { _ = s.rdb.Close() })
	if waiting := s.queue("default"); len(waiting) != 1 || !strings.Contains(waiting[0], jid) || !s.rdb.SIsMember(t.Context(), "queues", "default").Val() {
		t.Errorf("in the queue: %q", waiting)
	}
	harness.Equal(t, "connections, want the refused one and a new one", conns.Load(), 2)

	// what Ruby does there
	addr, conns = failover(t, replica.Addr, master.Addr)
	ruby(t, "redis://"+addr+"/0", `Sidekiq::Client.push("class" => "Record", "args" => [2])`, nil)
	if n := len(s.queue("default")); n != 2 || conns.Load() != 2 {
		t.Errorf("after Ruby's push %d jobs, %d connections", n, conns.Load())
	}
}

func TestCheck42ARestartOfRedisLosesNoFailedJobAndFetchingResumes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s := siteOf(t, redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1}), server.URL(0))
	t.Cleanup(func() { _ = s.rdb.Close() })
	spec := on(4, "default")
	spec.Beat = quickBeat
	p := s.process(spec)
	var jids []string
	for _, class := range []string{"FailAtGate", "FailAtGate", "Gate"} {
		jids = append(jids, s.push(class, `["é"]`))
	}
	s.awaitRuns(3, "")

	server.Kill()
	down := time.NewTimer(10 * time.Second)
	for _, jid := range jids {
		s.open(jid) // they end while Redis is away
	}
	<-down.C // the outage that the check speaks of
	s.must(server.Restart())

	for _, jid := range jids[:2] {
		raw, _ := s.awaitIn("retry", jid)
		if field(t, raw, "retry_count") != "0" || field(t, raw, "error_message") != `"at the gate"` {
			t.Errorf("in retry: %s", raw)
		}
	}
	s.awaitRuns(1, s.push("Record", `[]`))
	s.awaitEmpty("default")
	testkit.Await(t, "the counters arrive", func() bool { return s.stats().Processed >= 4 })
	if st := s.stats(); st.Processed != 4 || st.Failed != 2 || st.Retries != 2 || st.Dead != 0 {
		t.Errorf("Ruby's Stats: %+v", st)
	}
	harness.Equal(t, "runs, want each job to run once", len(s.events("run", "")), 4)
	p.Stop(soon)
}
