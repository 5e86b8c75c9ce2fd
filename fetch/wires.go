package fetch

import (
	"context"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// wires are the connections of a client that can be cut: go-redis does not look
// at a context while it reads, so a blocked command ends early only when its
// connection does.
type wires struct {
	ctx  context.Context // ends with cut
	stop context.CancelFunc
	lost func() // called when a connection is closed by its client; nil if nobody wants to know

	mu    sync.Mutex
	open  map[net.Conn]struct{}
	dials sync.WaitGroup
	isCut bool
}

func newWires() *wires {
	w := &wires{open: make(map[net.Conn]struct{})}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// client makes a client with the options of source for n commands that block
// and may be repeated. It dials on first use, through the dialer of source.
func (w *wires) client(source *redis.Client, n int) *redis.Client {
	return redis.NewClient(w.options(source, n))
}

// options are those of client.
func (w *wires) options(source *redis.Client, n int) *redis.Options {
	opt := *source.Options()
	opt.Dialer = w.dialer(opt.Dialer)
	opt.PoolSize, opt.MaxActiveConns, opt.MinIdleConns, opt.MaxIdleConns = n, 0, 0, 0
	opt.MaxConcurrentDials, opt.PipelinePoolSize = n, -1
	opt.MaxRetries, opt.DialerRetries = 1, 1 // once, for a connection that went stale while it rested
	opt.Limiter, opt.PushNotificationProcessor = nil, nil
	opt.ClientSideCache, opt.ClientSideCacheConfig = nil, nil
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	// Options of a client are resolved ones, where 0 means none; given again, 0
	// would mean the default.
	if opt.ReadTimeout <= 0 {
		opt.ReadTimeout--
	}
	if opt.WriteTimeout <= 0 {
		opt.WriteTimeout--
	}
	return &opt
}

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

func (w *wires) dialer(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		w.mu.Lock()
		if w.isCut {
			w.mu.Unlock()
			return nil, net.ErrClosed
		}
		w.dials.Add(1)
		w.mu.Unlock()
		defer w.dials.Done()

		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(w.ctx, cancel)()
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.isCut {
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		w.open[conn] = struct{}{}
		return &wire{Conn: conn, all: w}, nil
	}
}

// cut closes every connection, for good.
func (w *wires) cut() {
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	for conn := range w.open {
		_ = conn.Close()
	}
	clear(w.open)
}

// wait returns when no dial is under way; call it after cut.
func (w *wires) wait() { w.dials.Wait() }

// wire is one of the connections.
type wire struct {
	net.Conn
	all *wires
}

func (c *wire) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c.Conn)
	c.all.mu.Unlock()
	if c.all.lost != nil {
		c.all.lost()
	}
	return c.Conn.Close()
}
