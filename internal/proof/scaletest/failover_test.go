package scaletest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// pusher pushes without a pause, each job by a WAIT for the replica, which tells
// whether the write could survive its master.
type pusher struct {
	rdb *redis.ClusterClient

	mu         sync.Mutex
	safe, only []string // on a replica as well; known by the master alone
	unknown    []string // of which no answer came
}

func (p *pusher) run(ctx context.Context, queue string) {
	for n := 0; ctx.Err() == nil; n++ {
		jid := fmt.Sprintf("%s-%06d", queue, n)
		raw := fmt.Sprintf(`{"class":"Job","args":[],"jid":%q,"queue":%q,"retry":true}`, jid, queue)
		err := p.push(ctx, queue, raw, jid)
		if err != nil {
			p.rdb.ReloadState(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond): // Redis is away
			}
		}
	}
}

func (p *pusher) push(ctx context.Context, queue, raw, jid string) error {
	node, err := p.rdb.MasterForKey(ctx, keys.Queue(queue))
	if err != nil {
		return err
	}
	conn := node.Conn()
	defer func() { _ = conn.Close() }()
	pushed := conn.LPush(ctx, keys.Queue(queue), raw)
	if err := pushed.Err(); err != nil {
		if !errors.As(err, new(redis.Error)) { // an error reply: nothing was written
			p.mu.Lock()
			defer p.mu.Unlock()
			p.unknown = append(p.unknown, jid)
		}
		return err
	}
	replicas, err := conn.Wait(ctx, 1, 200*time.Millisecond).Result()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || replicas < 1 {
		p.only = append(p.only, jid)
		return err
	}
	p.safe = append(p.safe, jid)
	return nil
}

// onReplicas is how many pushes a replica has.
func (p *pusher) onReplicas() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.safe)
}

// missing lists the pushes that must not be lost and have not run.
func (p *pusher) missing(r *record) (missing []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, jid := range p.safe {
		if r.count(jid) == 0 {
			missing = append(missing, jid)
		}
	}
	return missing
}

// TestAMasterKilledUnderLoad kills the master of two queues and of the registry
// while jobs are pushed and run. The replica takes over; what it had is not lost.
// Runs are counted in this process: no failover can forget them.
//
// It is cut off from its replica just before, so that there is something to
// forget. What may run twice is read off the replica when the master stands still: what
// is queued or in progress there and begins before the failover was fetched, so
// that the replica lacks the fetch or the ack. However slow the machine, nothing
// else does, but what a rescuer has put back since a lease ran out meanwhile.
func TestAMasterKilledUnderLoad(t *testing.T) {
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client()
	t.Cleanup(func() { _ = rdb.Close() })
	r := &record{fn: func(*troupe.Payload) error {
		time.Sleep(2 * time.Millisecond) // work
		return nil
	}}
	log := new(tail)
	cfg := config(rdb, r)
	cfg.Logger = zerolog.New(log)
	daemons := []*actors.Daemon{start(t, cfg), start(t, cfg)}

	ctx, cancel := context.WithCancel(t.Context())
	p := &pusher{rdb: rdb}
	diagnose(t, cluster, func() []string { return p.missing(r) }, daemons, log)
	var pushers sync.WaitGroup
	defer pushers.Wait()
	defer cancel()
	for q := range 3 {
		pushers.Go(func() { p.run(ctx, fmt.Sprintf("q%d", q)) })
	}
	harness.AwaitFor(t, patience, "the work is under way", func() bool { return p.onReplicas() > 1000 })

	before := masters(t, cluster)
	victim := cluster.Node(before["q0"])
	heir := replicaOf(t, cluster, victim)
	outrun(t, victim, heir, p)
	there := known(t, heir)
	killed := time.Now()
	victim.Kill()
	harness.AwaitFor(t, patience, "a replica has taken over", func() bool {
		rdb.ReloadState(ctx)
		node, err := rdb.MasterForKey(ctx, keys.Queue("q0"))
		return err == nil && node.Options().Addr != victim.Addr && node.Ping(ctx).Err() == nil
	})
	mayRepeat := make(map[string]bool)
	for jid := range r.all() {
		if there[jid] {
			mayRepeat[jid] = true
		}
	}
	t.Logf("failover after %v", time.Since(killed).Round(time.Millisecond))
	safe := p.onReplicas()
	harness.AwaitFor(t, patience, "jobs are pushed again", func() bool { return p.onReplicas() > safe+500 })
	cancel()
	pushers.Wait()

	// What was acked or given back in the last moment of the master is in progress
	// on the replica, and its process does not know.
	var forgotten []string
	harness.AwaitFor(t, patience, "all has run but what is in progress for ever", func() bool {
		n, err := queued(t, rdb)
		if err != nil || n > 0 {
			return false
		}
		units, err := inProgress(t.Context(), cluster)
		forgotten = jidsOf(units)
		return err == nil && !slices.ContainsFunc(p.missing(r), func(jid string) bool { return !slices.Contains(forgotten, jid) })
	})
	for _, d := range daemons {
		stop(t, d)
	}
	harness.AwaitFor(t, patience, "every node tells what is in progress", func() bool {
		units, err := inProgress(t.Context(), cluster)
		forgotten = jidsOf(units)
		return err == nil
	})
	runs, twice, rescued := r.all(), 0, int(daemons[0].Stats().Rescued+daemons[1].Stats().Rescued)
	var strange []string
	for jid, n := range runs {
		twice += n - 1
		if n > 1 && !mayRepeat[jid] {
			strange = append(strange, jid)
		}
	}
	t.Logf("of %d jobs that the replica did not know as done %d ran twice and %d are in progress for ever; %d were rescued; no job began for %v",
		len(mayRepeat), twice, len(forgotten), rescued, r.silence(killed).Round(time.Millisecond))
	if after := masters(t, cluster); there == nil || after["q0"] != heir.Addr || after["q1"] != heir.Addr || after["q2"] != before["q2"] {
		t.Logf("the masters were %v and are %v: not only one failed over, so that only losses count", before, after)
	} else {
		if len(strange) > rescued || twice > len(mayRepeat)+rescued {
			t.Errorf("%d jobs ran again, expected those %d and the %d rescued; %d are others: %.20q", twice, len(mayRepeat), rescued, len(strange), strange)
		}
		for _, jid := range forgotten {
			if !there[jid] {
				t.Errorf("%s is in progress, and the replica knew that it had ended", jid)
			}
		}
	}

	// Their processes have left: whoever comes next runs them.
	next := start(t, cfg)
	harness.AwaitFor(t, patience, "nothing is lost, nothing is in progress", func() bool {
		units, err := inProgress(t.Context(), cluster)
		return err == nil && len(units) == 0 && len(p.missing(r)) == 0
	})
	stop(t, next)
	for jid, n := range r.all() {
		if n > runs[jid]+1 || n > runs[jid] && !slices.Contains(forgotten, jid) {
			t.Errorf("%s ran %d times, and %d times again", jid, runs[jid], n-runs[jid])
		}
	}
	t.Logf("%d jobs were on a replica, all ran; of %d known by the master alone %d are lost, of %d without an answer %d",
		len(p.safe), len(p.only), r.missing(p.only...), len(p.unknown), r.missing(p.unknown...))
}

// outrun stops a master when it has done what its replica will never hear of.
func outrun(t *testing.T, master, replica *redistest.Server, p *pusher) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: master.Addr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	alone := func() (n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, jid := range p.only {
			if strings.HasPrefix(jid, "q0-") {
				n++
			}
		}
		return n
	}
	signal(t, replica, osproc.Pause)
	defer signal(t, replica, osproc.Resume)
	harness.OK(t, rdb.Do(t.Context(), "CLIENT", "KILL", "TYPE", "replica").Err())
	before := alone()
	harness.AwaitFor(t, patience, "jobs are pushed that the master alone knows", func() bool { return alone() > before+1 })
	signal(t, master, osproc.Pause)
}

func signal(t *testing.T, s *redistest.Server, sig os.Signal) {
	t.Helper()
	harness.OK(t, s.Signal(sig))
}

// replicaOf is the replica of a master.
func replicaOf(t *testing.T, cluster *redistest.Cluster, master *redistest.Server) *redistest.Server {
	t.Helper()
	for _, node := range cluster.Nodes {
		if info := replication(t, node); info["role"] == "slave" && "127.0.0.1:"+info["master_port"] == master.Addr {
			return node
		}
	}
	t.Fatalf("%s has no replica", master.Addr)
	return nil
}

// known lists the jobs that a replica has in queues or in progress when it has
// read what is in its socket; nil when it is a master by now.
func known(t *testing.T, replica *redistest.Server) map[string]bool {
	t.Helper()
	info := replication(t, replica)
	for same := 0; same < 5; {
		now := replication(t, replica)
		if same++; now["slave_repl_offset"] != info["slave_repl_offset"] {
			info, same = now, 0
		}
	}
	units := harness.Must(nodeUnits(t.Context(), replica.Addr))(t)
	if replication(t, replica)["role"] != "slave" {
		t.Log("the replica took over while it was looked at")
		return nil
	}
	there := make(map[string]bool)
	for _, u := range units {
		there[u.jid] = true
	}
	return there
}

func replication(t *testing.T, node *redistest.Server) map[string]string {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: node.Addr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	text := harness.Must(rdb.Info(t.Context(), "replication").Result())(t)
	out := make(map[string]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		out[name] = value
	}
	return out
}

// masters are the addresses of the masters of the queues.
func masters(t *testing.T, cluster *redistest.Cluster) map[string]string {
	t.Helper()
	out := make(map[string]string)
	harness.AwaitFor(t, patience, "every queue has a master", func() bool {
		rdb := cluster.Client() // it has seen nothing yet
		defer func() { _ = rdb.Close() }()
		for _, q := range []string{"q0", "q1", "q2"} {
			node, err := rdb.MasterForKey(context.Background(), keys.Queue(q))
			if err != nil || node.Ping(context.Background()).Err() != nil {
				return false
			}
			out[q] = node.Options().Addr
		}
		return true
	})
	return out
}

// silence is the longest time after an instant in which no job began.
func (r *record) silence(after time.Time) (longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var begun []time.Time
	for _, at := range r.first {
		if at.After(after) {
			begun = append(begun, at)
		}
	}
	slices.SortFunc(begun, time.Time.Compare)
	for _, at := range begun {
		longest = max(longest, at.Sub(after))
		after = at
	}
	return longest
}
