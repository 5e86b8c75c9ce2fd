package fetch

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Wait blocks until a queue may have work; see Fetcher. There is no doorbell: the
// baton would be in a slot of its own.
func (f *onCluster) Wait(ctx context.Context, d time.Duration) error {
	return f.peeks.wait(ctx, min(d, lookTime)) // the look that follows finds out what is paused
}

// dialPeeks makes the client of the peeks.
func (f *onCluster) dialPeeks(w *wires) peekClient {
	opt := *f.rdb.Options()
	opt.Dialer = w.dialer(clusterDialer(&opt))
	opt.PoolSize, opt.MinIdleConns, opt.MaxIdleConns, opt.MaxActiveConns = len(f.names)+1, 0, 0, 0
	opt.MaxRedirects = 3 // a peek takes nothing: it may be repeated
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	opt.PushNotificationProcessor = nil
	peeks := redis.NewClusterClient(&opt)
	f.env.opened(peeks)
	return clusterPeeks{peeks}
}

// clusterDialer is the dialer of the options, or what go-redis makes of them.
func clusterDialer(opt *redis.ClusterOptions) dialFunc {
	if opt.Dialer != nil {
		return opt.Dialer
	}
	return redis.NewDialer(&redis.Options{DialTimeout: opt.DialTimeout, TLSConfig: opt.TLSConfig})
}

// clusterPeeks looks again where the queues are when a peek has failed.
type clusterPeeks struct{ *redis.ClusterClient }

// BLMove is that of the client.
func (c clusterPeeks) BLMove(ctx context.Context, from, to, take, put string, d time.Duration) *redis.StringCmd {
	cmd := c.ClusterClient.BLMove(ctx, from, to, take, put, d)
	if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) && ctx.Err() == nil {
		c.ReloadState(ctx)
	}
	return cmd
}
