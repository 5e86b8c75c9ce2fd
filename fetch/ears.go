package fetch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// invalidations is the channel on which Redis tells RESP2 connections of
	// changed keys.
	invalidations = "__redis__:invalidate"

	// earTimeout bounds the steps of opening and closing ears.
	earTimeout = 3 * time.Second
)

// errNoEars says that the server refuses what ears need.
var errNoEars = errors.New("the server has no CLIENT TRACKING for us")

// ears are two connections: on one Redis tells which of the keys have changed
// that the other, the hand, has read last. They live and die together: a hand
// whose ear is gone arms nothing. Their client speaks RESP2, in which
// invalidations come as messages of a channel.
type ears struct {
	wires  *wires
	rdb    *redis.Client
	ps     *redis.PubSub
	hand   *hand
	opened time.Time
	used   time.Time     // the last use of the hand; guarded by the doorbell's turn
	heard  time.Time     // the last message; guarded by the doorbell
	asked  time.Time     // an echo was asked for and has not come; the same
	silent chan struct{} // closed when nobody reads the ear any more
}

// hand is the connection that reads the keys. It is closed when nobody is at it:
// go-redis's own has a race there, which can end in a panic.
type hand struct {
	mu   sync.Mutex
	conn *redis.Conn
}

// Process runs one command.
func (h *hand) Process(ctx context.Context, cmd redis.Cmder) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.conn.Process(ctx, cmd)
}

// close waits for the end of a command, which the cut of its connection brings.
func (h *hand) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.conn.Close()
}

// openEars makes ears subscribed to channel; opened is told of their client.
func openEars(ctx context.Context, source *redis.Client, opened func(redis.UniversalClient), channel string) (*ears, error) {
	e := &ears{wires: newWires(), silent: make(chan struct{})}
	e.wires.lost = e.wires.cut
	defer context.AfterFunc(ctx, e.wires.cut)() // go-redis does not look at it while it reads
	id, refused := int64(0), error(nil)
	opt := e.wires.options(source, 2)
	opt.Protocol, opt.MaxRetries = 2, -1 // a silent second try would be one on another connection
	opt.DialTimeout = min(opt.DialTimeout, earTimeout)
	connected := opt.OnConnect
	opt.OnConnect = func(ctx context.Context, conn *redis.Conn) error {
		if id == 0 && refused == nil { // the ear is the first to be dialled
			id, refused = conn.ClientID(ctx).Result()
		}
		if connected != nil {
			return connected(ctx, conn)
		}
		return nil
	}
	e.rdb = redis.NewClient(opt)
	opened(e.rdb)
	e.ps = e.rdb.Subscribe(ctx, channel, invalidations)
	e.hand = &hand{conn: e.rdb.EphemeralConn()} // tracking is a state of the connection
	err := e.arm(ctx, &id, &refused)
	if err == nil {
		e.opened, e.heard, e.used = time.Now(), time.Now(), time.Now()
		return e, nil
	}
	close(e.silent) // nobody reads
	e.shut()
	if isReply(err) && !redis.HasErrorPrefix(err, "LOADING") {
		return nil, fmt.Errorf("%w: %w", errNoEars, err)
	}
	return nil, fmt.Errorf("listen: %w", err)
}

// arm makes sure that the server has seen the subscriptions before tracking
// begins. id and refused are set by the first dial.
func (e *ears) arm(ctx context.Context, id *int64, refused *error) error {
	for range 2 {
		if _, err := e.ps.ReceiveTimeout(ctx, earTimeout); err != nil {
			return err
		}
	}
	if *refused != nil {
		return *refused
	}
	ctx, cancel := context.WithTimeout(ctx, earTimeout)
	defer cancel()
	return e.hand.conn.Do(ctx, "client", "tracking", "on", "redirect", *id, "noloop").Err()
}

// listen hands every message to hear until a connection breaks.
func (e *ears) listen(hear func(*redis.Message)) {
	defer close(e.silent)
	for {
		msg, err := e.ps.Receive(e.wires.ctx)
		if err != nil { // also for "everything was flushed", which go-redis cannot read
			return
		}
		if m, ok := msg.(*redis.Message); ok {
			hear(m)
			runtime.Gosched() // whoever was woken first: a job may be waiting
		}
	}
}

// shut cuts the connections and waits for whoever uses them.
func (e *ears) shut() {
	e.wires.cut()
	_ = e.ps.Close()
	e.hand.close()
	_ = e.rdb.Close()
	e.wires.wait()
	<-e.silent
}
