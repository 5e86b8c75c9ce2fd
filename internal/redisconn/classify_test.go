package redisconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestClassify(t *testing.T) {
	for _, tt := range []struct {
		want Fault
		err  error
	}{
		{None, nil},
		{None, redis.Nil},
		{Local, context.Canceled},
		{Local, redis.ErrClosed},
		{Outage, context.DeadlineExceeded},
		{Outage, io.EOF},
		{Outage, io.ErrUnexpectedEOF},
		{Outage, redis.ErrPoolTimeout},
		{Outage, redis.ErrPoolExhausted},
		{Outage, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}},
		{Outage, &net.OpError{Op: "read", Err: syscall.ECONNRESET}},
		{Outage, &net.DNSError{Err: "no such host"}},
		{Outage, errors.New("redis: all sentinels specified in configuration are unreachable")},
		{Outage, errors.New("redis: connection unusable (reply stream desynchronized)")},
		{Outage, Reply("LOADING Redis is loading the dataset in memory")},
		{Outage, Reply("READONLY You can't write against a read only replica.")},
		{Outage, Reply("MASTERDOWN Link with MASTER is down")},
		{Outage, Reply("BUSY Redis is busy running a script.")},
		{Command, Reply("BUSYGROUP Consumer Group name already exists")},
		{Outage, Reply("CLUSTERDOWN The cluster is down")},
		{Outage, Reply("TRYAGAIN Multiple keys request during rehashing of slot")},
		{Outage, Reply("MOVED 3999 127.0.0.1:6381")},
		{Outage, Reply("NOREPLICAS Not enough good replicas to write.")},
		{Outage, Reply("UNBLOCKED force unblock from blocking operation")},
		{Outage, Reply("OOM command not allowed when used memory > 'maxmemory'.")},
		{Outage, Reply("OOM command not allowed when used memory > 'maxmemory'. script: 0e, on @user_script:1.")},
		{Outage, Reply("ERR Error running script (call to f_0e): @user_script:1: @user_script: 1: -OOM command not allowed")},
		{Command, Reply("ERR Error running script (call to f_0e): @user_script:1: WRONGTYPE Operation against a key")},
		{Outage, Reply("MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk.")},
		{Outage, Reply("ERR max number of clients reached")},
		{Outage, Reply("ERR LOADING server is loading")},
		{Auth, Reply("NOAUTH Authentication required.")},
		{Auth, Reply("WRONGPASS invalid username-password pair or user is disabled.")},
		{Auth, Reply("NOPERM this user has no permissions to run the 'info' command")},
		{Auth, Reply("DENIED Redis is running in protected mode")},
		{Auth, Reply("ERR invalid password")},
		{Auth, Reply("ERR AUTH <password> called without any password configured for the default user.")},
		{Outage, Reply("EXECABORT Transaction discarded because of: OOM command not allowed")},
		{Auth, Reply("EXECABORT Transaction discarded because of: NOPERM this user has no permissions")},
		{Outage, Reply("EXECABORT Transaction discarded because of previous errors.")},
		{Command, Reply("WRONGTYPE Operation against a key holding the wrong kind of value")},
		{Command, Reply("ERR unknown command 'x'")},
		{Command, Reply("ERR DB index is out of range")},
		{Command, Reply("CROSSSLOT Keys in request don't hash to the same slot")},
		{Command, Reply("NOSCRIPT No matching script. Please use EVAL.")},
		{Command, errors.New("redis: can't marshal chan int (implement encoding.BinaryMarshaler)")},
	} {
		if got := Classify(tt.err); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.err, got, tt.want)
		}
		if tt.err != nil {
			if got := Classify(fmt.Errorf("push: %w", tt.err)); got != tt.want {
				t.Errorf("wrapped %v: %s, want %s", tt.err, got, tt.want)
			}
		}
	}
}

func TestClassifyOfARealServer(t *testing.T) {
	s := redistest.Start(t)
	c := fromURL(t, s.URL(0))
	ctx := t.Context()
	c.Set(ctx, "s", "x", 0)
	expect := func(what string, want Fault, err error) {
		t.Helper()
		if got := Classify(err); got != want {
			t.Errorf("%s: %s, want %s: %v", what, got, want, err)
		}
	}
	expect("wrong type", Command, c.LPush(ctx, "s", "y").Err())
	script := func(keys ...string) error {
		return c.Eval(ctx, "return redis.call('LPUSH', KEYS[1], 'x')", keys).Err()
	}
	expect("wrong type in a script", Command, script("s"))

	c.ConfigSet(ctx, "maxmemory", "1")
	transaction := func() error {
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Set(ctx, "a", 1, 0); return nil })
		return err
	}
	expect("out of memory", Outage, c.Set(ctx, "a", 1, 0).Err())
	expect("out of memory in a script", Outage, script("l"))
	expect("out of memory in a transaction", Outage, transaction())
	c.ConfigSet(ctx, "maxmemory", "0")

	c.ConfigSet(ctx, "min-replicas-to-write", "1")
	expect("no replicas in a script", Outage, script("l"))
	c.ConfigSet(ctx, "min-replicas-to-write", "0")

	c.Do(ctx, "replicaof", "127.0.0.1", "1")
	expect("read only", Outage, c.Set(ctx, "a", 1, 0).Err())
	expect("read only in a script", Outage, script("l"))
	expect("read only in a transaction", Outage, transaction())

	s.Kill()
	expect("killed", Outage, c.Ping(ctx).Err())
	expect("killed, in a transaction", Outage, transaction())
}
