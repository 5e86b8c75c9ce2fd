package inspect

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// This file has what values say that New did not make, or made of nothing.

var errNotMade = errors.New("inspect: no redis client: got nil or a zero value, expected what inspect.New makes of one that is connected to the Redis of the jobs")

// nowhere is a client of which every command fails.
var nowhere = sync.OnceValue(func() redis.UniversalClient {
	rdb := redis.NewClient(&redis.Options{MaxRetries: -1, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
	rdb.AddHook(refuse{})
	return rdb
})

// refuse fails every command.
type refuse struct{}

func (refuse) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errNotMade }
}

func (refuse) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		cmd.SetErr(errNotMade)
		return errNotMade
	}
}

func (refuse) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			cmd.SetErr(errNotMade)
		}
		return errNotMade
	}
}

// db is the client of the inspector.
func (i *Inspector) db() redis.UniversalClient {
	if i.rdb == nil {
		return nowhere()
	}
	return i.rdb
}

// made is s, or one of no Redis.
func (s *JobSet) made() *JobSet {
	if s == nil {
		return new(JobSet)
	}
	return s
}

// orNone is i, or one of no Redis.
func orNone(i *Inspector) *Inspector {
	if i == nil {
		return new(Inspector)
	}
	return i
}

func (s *JobSet) in() *Inspector  { return orNone(s.i) }
func (q *Queue) in() *Inspector   { return orNone(q.i) }
func (c *Claim) in() *Inspector   { return orNone(c.i) }
func (p *Process) in() *Inspector { return orNone(p.i) }
