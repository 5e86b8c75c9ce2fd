package sched

import (
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/script"
)

//go:embed seat_cluster.lua
var clusterSeatSource string

var clusterSeatScript = script.New("seat_cluster", clusterSeatSource)

// clusterLook is how often a cluster's watcher looks at the sets unasked.
const clusterLook = time.Second

// watchOnCluster is Watch on a cluster. Tracking is a matter of one node and the
// sets are on two, which may change: so there is one watcher, woken by the bell
// that troupe's own pushes and retries ring, and it looks once a second for what
// others add. When it dies another takes over at the end of its lease; the
// interval counts all the time.
func (s *Scheduler) watchOnCluster(ctx context.Context, rdb *redis.ClusterClient, identity string, notify func(Event)) error {
	for {
		mine, err := clusterSeat(ctx, rdb, identity, seatLease)
		if err == nil && mine {
			err = s.reignOnCluster(ctx, rdb, identity, notify)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("watch schedule and retry: %w", err)
		}
		n, err := rdb.SCard(ctx, keys.Processes).Result()
		if err != nil {
			n = 1
		}
		pause := max(seatPause, time.Duration(n)*seatPauseAdd)
		if !sleep(ctx, pause*3/4+rand.N(pause/2)) {
			return nil
		}
	}
}

// reignOnCluster watches until the seat is lost.
func (s *Scheduler) reignOnCluster(ctx context.Context, rdb *redis.ClusterClient, identity string, notify func(Event)) error {
	bell := rdb.Subscribe(ctx, keys.Bell)
	defer func() { _ = bell.Close() }()
	rung := bell.Channel()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		_, _ = clusterSeat(ctx, rdb, identity, 0) // else the lease ends
	}()
	notify(Event{Kind: Elected})
	defer notify(Event{Kind: Lost})
	renew, look := time.NewTicker(seatRenewal), time.NewTicker(clusterLook)
	defer renew.Stop()
	defer look.Stop()
	var known time.Time
	for {
		call, cancel := context.WithTimeout(ctx, clusterLook)
		o, err := lookOnCluster(call, rdb)
		cancel()
		if err != nil {
			return err
		}
		if next := o.Next(); !next.Equal(known) || !next.IsZero() && time.Now().After(next) {
			known = next
			notify(Event{Kind: Ring, Next: next})
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		case <-rung:
			if !sleep(ctx, lookPause) {
				return ctx.Err()
			}
		case <-renew.C:
			if mine, err := clusterSeat(ctx, rdb, identity, seatLease); err != nil || !mine {
				return err
			}
		}
	}
}

func clusterSeat(ctx context.Context, rdb *redis.ClusterClient, identity string, lease time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterLook)
	defer cancel()
	return clusterSeatScript.Run(ctx, rdb, []string{keys.Poller}, identity, lease.Milliseconds()).Bool()
}
