package fetch

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

// blmove makes a blocked move on a connection of its own, which can be cut: go-redis does not
// look at a context while it reads.
func (w *waiter) blmove(ctx context.Context, d time.Duration) (string, error) {
	queue := keys.Queue(w.in.f.set.Load().names[w.queue])
	client, err := w.dial(ctx, queue)
	if err != nil {
		return "", err
	}
	seconds := strconv.FormatFloat(d.Seconds(), 'f', 3, 64)
	text, err := client.Do(ctx, "blmove", queue, w.list.key, "RIGHT", "LEFT", seconds).Text()
	if err != nil && err != redis.Nil && (!redisconn.IsReply(err) || redisconn.HasPrefix(err, "MOVED", "ASK")) { //nolint:errorlint // it is never wrapped
		w.cut(false)
	}
	return text, err
}

// dial makes a client for one connection, which names the list at first.
func (w *waiter) dial(ctx context.Context, queue string) (client *redis.Client, err error) {
	f := w.in.f
	f.mu.Lock()
	client = w.client
	f.mu.Unlock()
	if client != nil {
		return client, nil
	}
	node, _ := f.rdb.(*redis.Client)
	if cluster, is := f.rdb.(*redis.ClusterClient); is {
		if node, err = cluster.MasterForKey(ctx, queue); err != nil {
			return nil, err
		}
	}
	opt := *node.Options()
	connected := opt.OnConnect
	opt.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		if connected != nil {
			if err := connected(ctx, cn); err != nil {
				return err
			}
		}
		f.mu.Lock()
		gen := w.p.gen
		f.mu.Unlock()
		if err := openScript.Run(ctx, cn, []string{w.p.key}, gen, w.list.field, f.set.Load().names[w.queue]).Err(); err != nil {
			return err
		}
		id, _ := cn.ClientID(ctx).Result() // without it the connection is closed instead
		f.mu.Lock()
		defer f.mu.Unlock()
		w.number = id
		return nil
	}
	opt.PoolSize, opt.MaxActiveConns, opt.MinIdleConns, opt.MaxIdleConns = 1, 0, 0, 0
	opt.MaxRetries, opt.DialerRetries = -1, 1
	opt.PipelinePoolSize, opt.MaxConcurrentDials = -1, 1
	opt.Limiter, opt.PushNotificationProcessor = nil, nil
	opt.ClientSideCache, opt.ClientSideCacheConfig = nil, nil
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	opt.ReadTimeout = longWait + 10*time.Second
	if opt.WriteTimeout <= 0 {
		opt.WriteTimeout--
	}
	client = redis.NewClient(&opt)
	redisconn.Guard(client)
	if f.env.OnClient != nil {
		if err := redisconn.Try(func() error { f.env.OnClient(client); return nil }); err != nil {
			return nil, errors.Join(err, client.Close())
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.gone {
		return nil, errors.Join(net.ErrClosed, client.Close())
	}
	w.client, w.node = client, node
	return client, nil
}

// cut closes the connection, and one that is read from; the next move makes a new one unless
// it is closed for good.
func (w *waiter) cut(gone bool) {
	w.in.f.mu.Lock()
	client := w.client
	w.client, w.node, w.number, w.gone = nil, nil, 0, w.gone || gone
	w.in.f.mu.Unlock()
	if client != nil {
		_ = client.Close()
	}
}
