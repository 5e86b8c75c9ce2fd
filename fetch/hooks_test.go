package fetch

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Hooks of a client that break its calls.

var errBroken = errors.New("broken off")

// death ends a client at a command: from there on nothing passes. applied: the command
// itself is still carried out, and its reply never read.
type death struct {
	left    int
	applied bool
	dead    bool
}

func (d *death) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d *death) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := d.meet(func() error { return next(ctx, cmds) })
		if errors.Is(err, errBroken) {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

func (d *death) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := d.meet(func() error { return next(ctx, cmd) })
		if errors.Is(err, errBroken) {
			cmd.SetErr(err)
		}
		return err
	}
}

func (d *death) meet(call func() error) error {
	if d.dead {
		return errBroken
	}
	if d.left > 0 {
		d.left--
		return call()
	}
	d.dead = true
	if d.applied {
		_ = call()
	}
	return errBroken
}

// lostReply loses the reply of one script, once it is armed.
type lostReply struct {
	mu      sync.Mutex
	hash    string // of the script; "" for none
	applied bool   // Redis carries it out
	struck  int
}

func (l *lostReply) arm(hash string, applied bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hash, l.applied = hash, applied
}

func (l *lostReply) DialHook(next redis.DialHook) redis.DialHook { return next }
func (l *lostReply) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *lostReply) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		l.mu.Lock()
		strikes := l.hash != "" && len(cmd.Args()) > 1 && cmd.Args()[1] == l.hash
		applied := l.applied
		if strikes {
			l.hash, l.struck = "", l.struck+1
		}
		l.mu.Unlock()
		if !strikes {
			return next(ctx, cmd)
		}
		if applied {
			_ = next(ctx, cmd)
		}
		cmd.SetErr(io.EOF)
		return io.EOF
	}
}

// meanwhile does something just before the first call of a script.
type meanwhile struct {
	hash string
	do   func()
}

func (m *meanwhile) DialHook(next redis.DialHook) redis.DialHook { return next }
func (m *meanwhile) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (m *meanwhile) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if len(cmd.Args()) > 1 && cmd.Args()[1] == m.hash && m.hash != "" {
			m.hash = ""
			m.do()
		}
		return next(ctx, cmd)
	}
}
