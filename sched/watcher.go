package sched

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// watcher is one call of Watch.
type watcher struct {
	s      *Scheduler
	id     string
	notify func(Event)

	rdb    *redis.Client // of its own: pushes and tracking are a matter of connections
	bells  bells
	lastID atomic.Int64 // CLIENT ID of the newest connection, 0 if the server has none

	mu    sync.Mutex
	conns []net.Conn // every one that was dialed; a handful in a life
}

// open makes the watcher's client; ctx bounds its dialing.
func (w *watcher) open(ctx context.Context, rdb *redis.Client) {
	o := *rdb.Options()
	dial, connected := o.Dialer, o.OnConnect
	o.Dialer = func(dctx context.Context, network, addr string) (net.Conn, error) {
		dctx, cancel := context.WithCancel(dctx) // go-redis dials with a context of its own
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		conn, err := dial(dctx, network, addr)
		if err == nil {
			w.mu.Lock()
			w.conns = append(w.conns, conn)
			w.mu.Unlock()
		}
		return conn, err
	}
	o.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		id, _ := cn.ClientID(ctx).Result() // an error means no tracking
		w.lastID.Store(id)
		if connected != nil {
			return connected(ctx, cn)
		}
		return nil
	}
	o.MaxRetries, o.DialerRetries = -1, 1
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns, o.PipelinePoolSize = 2, 0, 0, 0, -1
	o.ConnMaxIdleTime = 0 // its default: a new one for each question would cost more than the old
	o.DialTimeout = min(o.DialTimeout, callTimeout)
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = callTimeout, callTimeout, callTimeout
	o.ContextTimeoutEnabled = true
	o.Limiter, o.PushNotificationProcessor = nil, nil
	o.ClientSideCacheConfig, o.ClientSideCache = nil, nil
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	w.rdb = redis.NewClient(&o)
	if w.s.cfg.OnClient != nil {
		w.s.cfg.OnClient(w.rdb)
	}
	if w.rdb.Options().Protocol == 3 {
		_ = w.rdb.RegisterPushNotificationHandler("invalidate", &w.bells, false) // a new client has none
	}
}

// cut closes all connections under whoever waits for them.
func (w *watcher) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.conns = nil
}
