package scaletest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redistest"
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

// TestAMasterKilledUnderLoad kills the master of a queue while jobs are pushed
// and run. The replica takes over; what it had is not lost. Runs are counted in
// this process: no failover can forget them.
func TestAMasterKilledUnderLoad(t *testing.T) {
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client()
	defer func() { _ = rdb.Close() }()
	r := &record{fn: func(*troupe.Payload) error {
		time.Sleep(2 * time.Millisecond) // work
		return nil
	}}
	first, second := start(t, config(rdb, r)), start(t, config(rdb, r))

	ctx, cancel := context.WithCancel(t.Context())
	p := &pusher{rdb: rdb}
	var pushers sync.WaitGroup
	defer pushers.Wait()
	defer cancel()
	for q := range 3 {
		pushers.Go(func() { p.run(ctx, fmt.Sprintf("q%d", q)) })
	}
	until(t, "the work is under way", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.safe) > 1000
	})

	master, err := rdb.MasterForKey(ctx, keys.Queue("q0"))
	if err != nil {
		t.Fatal(err)
	}
	victim := cluster.Node(master.Options().Addr)
	killed := time.Now()
	victim.Kill()
	until(t, "a replica has taken over, and work goes on", func() bool {
		rdb.ReloadState(ctx)
		node, err := rdb.MasterForKey(ctx, keys.Queue("q0"))
		return err == nil && node.Options().Addr != victim.Addr && node.Ping(ctx).Err() == nil
	})
	t.Logf("failover after %v", time.Since(killed).Round(time.Millisecond))
	p.mu.Lock()
	before := len(p.safe)
	p.mu.Unlock()
	until(t, "jobs are pushed again", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.safe) > before+500
	})
	cancel()
	pushers.Wait()

	until(t, "all that the replica had has run", func() bool { return r.missing(p.safe...) == 0 && queued(t, rdb) == 0 })
	stop(t, first)
	stop(t, second)
	t.Logf("no job began for %v", r.silence(killed).Round(time.Millisecond))

	// Acks that the dead master took with it leave units behind; they would run
	// again after a rescue.
	forgotten := held(t, rdb)
	twice, late := 0, 0
	for _, jid := range append(p.safe, append(p.only, p.unknown...)...) {
		if n := r.count(jid); n > 1 {
			twice += n - 1
			if age := killed.Sub(r.first[jid]); age > 2*time.Second || age < -time.Minute {
				late++
			}
		}
	}
	t.Logf("%d jobs were on a replica, all ran; of %d known by the master alone %d are lost, of %d without an answer %d; "+
		"%d ran twice, %d acks were forgotten",
		len(p.safe), len(p.only), r.missing(p.only...), len(p.unknown), r.missing(p.unknown...), twice, forgotten)
	if most := 100; twice+forgotten > most || late > 0 {
		t.Errorf("%d ran twice and %d acks were forgotten, expected what was under way at the kill, at most %d; %d of them had ended long before",
			twice, forgotten, most, late)
	}
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
