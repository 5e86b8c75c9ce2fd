// Package server runs the stores of a measurement: a Redis and a PostgreSQL on
// loopback, with data in a directory of their own, gone when they are closed.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/troupehq/troupe/bench/internal/proc"
)

// patience is how long a server may take to start on a busy machine.
const patience = 60 * time.Second

// Redis is a running redis-server.
type Redis struct {
	Addr   string
	Client *redis.Client // the driver's own
	dir    string
	p      *proc.Process

	mu    sync.Mutex
	conns map[string]bool // addresses of the driver's own connections
}

// RedisMissing tells why there can be no Redis.
func RedisMissing() error {
	_, err := exec.LookPath("redis-server")
	return err
}

// StartRedis starts a server in a new directory below parent, with the data of
// image, a file written by Save, if that is not "".
func StartRedis(ctx context.Context, parent, image string) (*Redis, error) {
	dir, err := os.MkdirTemp(parent, "redis-")
	if err != nil {
		return nil, err
	}
	if image != "" {
		if err := os.Link(image, filepath.Join(dir, "dump.rdb")); err != nil {
			return nil, err
		}
	}
	for range 5 { // the port may be taken between the two steps
		var r *Redis
		if r, err = startRedis(ctx, dir); err == nil {
			return r, nil
		}
	}
	_ = os.RemoveAll(dir)
	return nil, err
}

func startRedis(ctx context.Context, dir string) (*Redis, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(addr)
	p, err := proc.Start(exec.CommandContext(context.WithoutCancel(ctx), "redis-server",
		"--port", port, "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--appendonly", "no", "--maxclients", "20000"), dir, "redis")
	if err != nil {
		return nil, err
	}
	r := &Redis{Addr: addr, dir: dir, p: p, conns: map[string]bool{}}
	r.Client = redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, PoolSize: 4, Dialer: r.dial,
		ReadTimeout:              patience, // a script of a contender may keep the server busy
		DisableIdentity:          true,     // and nothing of its own that would be counted
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	if err := r.await(ctx); err != nil {
		r.Close()
		return nil, fmt.Errorf("redis-server at %s: %w: %s", addr, err, p.Tail())
	}
	return r, nil
}

func (r *Redis) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if err := r.p.Ended(); err != nil {
			return err
		}
		err := r.Client.DBSize(ctx).Err() // refused while it loads
		if err == nil {
			return r.check(ctx)
		}
		if ctx.Err() != nil {
			return err
		}
		time.Sleep(2 * time.Millisecond) // no signal tells that a server listens
	}
}

// check makes sure that it is our server that answers.
func (r *Redis) check(ctx context.Context) error {
	got, err := r.Client.ConfigGet(ctx, "dir").Result()
	if err == nil && got["dir"] != r.dir {
		return errors.New("another server answers there")
	}
	return err
}

// dial remembers the addresses of the driver's connections.
func (r *Redis) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil {
		r.mu.Lock()
		r.conns[c.LocalAddr().String()] = true
		r.mu.Unlock()
	}
	return c, err
}

// Mine reports whether a client address of this server is the driver's own.
func (r *Redis) Mine(addr string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conns[addr]
}

// PID is the server's process id.
func (r *Redis) PID() int { return r.p.PID() }

// Save writes the data to path.
func (r *Redis) Save(ctx context.Context, path string) error {
	if err := r.Client.Do(ctx, "SAVE").Err(); err != nil {
		return err
	}
	return os.Rename(filepath.Join(r.dir, "dump.rdb"), path)
}

// Close ends the server and removes its directory.
func (r *Redis) Close() {
	_ = r.Client.Close()
	r.p.Kill()
	_ = os.RemoveAll(r.dir)
}
