package fetch

import (
	"context"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// conn is the connection of a waiter. It can be cut: go-redis does not look at a context
// while it reads.
type conn struct {
	mu     sync.Mutex
	client *redis.Client
	node   *redis.Client // what it was made of
	number int64         // of the connection, by which Redis can be asked to end its wait
	closed bool
}

// move is BLMOVE.
func (c *conn) move(ctx context.Context, w *waiter, queue, list string, d time.Duration) (string, error) {
	client, err := c.dial(ctx, w, queue)
	if err != nil {
		return "", err
	}
	seconds := strconv.FormatFloat(d.Seconds(), 'f', 3, 64)
	text, err := client.Do(ctx, "blmove", queue, list, "RIGHT", "LEFT", seconds).Text()
	if err != nil && err != redis.Nil && (!isReply(err) || hasPrefix(err, "MOVED", "ASK")) { //nolint:errorlint // it is never wrapped
		c.cut()
	}
	return text, err
}

func (c *conn) dial(ctx context.Context, w *waiter, queue string) (*redis.Client, error) {
	c.mu.Lock()
	client := c.client
	c.mu.Unlock()
	if client != nil {
		return client, nil
	}
	node, ok := w.in.f.rdb.(*redis.Client)
	if cluster, is := w.in.f.rdb.(*redis.ClusterClient); is {
		var err error
		if node, err = cluster.MasterForKey(ctx, queue); err != nil {
			return nil, err
		}
	} else if !ok {
		return nil, net.ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	opt := *node.Options()
	connected := opt.OnConnect
	opt.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		if connected != nil {
			if err := connected(ctx, cn); err != nil {
				return err
			}
		}
		if err := w.name(ctx, cn); err != nil {
			return err
		}
		id, _ := cn.ClientID(ctx).Result() // without it the connection is closed instead
		c.mu.Lock()
		defer c.mu.Unlock()
		c.number = id
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
	c.client, c.node = redis.NewClient(&opt), node
	w.in.f.env.opened(c.client)
	return c.client, nil
}

// id is the number of the connection, and a client of its server; 0 while there is none.
func (c *conn) id() (int64, *redis.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.number, c.node
}

// cut closes the connection; the next move makes a new one.
func (c *conn) cut() {
	c.mu.Lock()
	client := c.client
	c.client, c.number, c.node = nil, 0, nil
	c.mu.Unlock()
	if client != nil {
		_ = client.Close() // and with it a connection that is read from
	}
}

// close closes it for good.
func (c *conn) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cut()
}
