package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

// Process is one daemon of the fleet, Ruby's or ours, as of its last heartbeat.
type Process struct {
	Identity  string // HOST:PID:NONCE
	Hostname  string
	PID       int
	Tag       string // "" if none
	Labels    []string
	Version   string // "" before Sidekiq 7
	StartedAt time.Time
	Embedded  bool // part of somebody else's program: refuses Quiet and Stop

	Concurrency int       // jobs that it can run at once, all capsules
	Queues      []string  // bare names, unique
	Capsules    []Capsule // what is known of them, see Capsule

	Busy     int       // jobs that run
	Beat     time.Time // of the last heartbeat
	Stopping bool      // quiet: it fetches nothing more
	Leader   bool      // it leads, by Sidekiq Enterprise
	RSS      int64     // memory in KB
	RTT      time.Duration

	// Info is the JSON object that the process has written about itself.
	Info json.RawMessage

	i *Inspector
}

// Capsule is a set of queues with its own workers. Sidekiq 8 and troupe tell all
// of it, Sidekiq 7 only the queues and weights, Sidekiq 6 nothing: then there is
// none.
type Capsule struct {
	Name        string         // "" unknown
	Concurrency int            // 0 unknown
	Mode        string         // strict, weighted or random; "" unknown
	Queues      []string       // in order
	Weights     map[string]int // by queue; 0 in strict mode
}

// Processes returns all live processes, by identity. It only reads: those without a heartbeat
// are left out, and any process of Sidekiq or troupe takes them off the list.
func (i *Inspector) Processes(ctx context.Context) ([]*Process, error) {
	ids, err := i.members(ctx, keys.Processes)
	cmds := make([]redis.Cmder, len(ids), len(ids)+1)
	for n, id := range ids {
		cmds[n] = hmget(ctx, id)
	}
	leader := redis.NewStringCmd(ctx, "get", keys.DearLeader)
	cmds = append(cmds, leader)
	if err == nil {
		err = i.pipelined(ctx, cmds)
	}
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []*Process
	for n, id := range ids {
		if p := i.process(id, cmds[n].(*redis.SliceCmd).Val()); p != nil {
			p.Leader = id == leader.Val()
			all = append(all, p)
		}
	}
	return all, nil
}

// Process returns the live process of that identity, or ErrNotFound.
func (i *Inspector) Process(ctx context.Context, identity string) (*Process, error) {
	pipe := i.db().Pipeline()
	listed := pipe.SIsMember(ctx, keys.Processes, identity)
	fields := hmget(ctx, identity)
	_ = pipe.Process(ctx, fields) // only queues it
	leader := pipe.Get(ctx, keys.DearLeader)
	if _, err := pipe.Exec(ctx); err != nil && !absent(err) {
		return nil, fmt.Errorf("read process %s: %w", identity, err)
	}
	if p := i.process(identity, fields.Val()); p != nil && listed.Val() {
		p.Leader = identity == leader.Val()
		return p, nil
	}
	return nil, fmt.Errorf("read process %s: %w", identity, ErrNotFound)
}

// Tree returns the supervision tree of a process of ours as JSON, as of its last
// heartbeat, or ErrNotFound.
func (i *Inspector) Tree(ctx context.Context, identity string) ([]byte, error) {
	tree, err := i.db().Get(ctx, keys.Tree(identity)).Bytes()
	if errors.Is(err, redis.Nil) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read the tree of %s: %w", identity, err)
	}
	return tree, nil
}

// Quiet tells the process to fetch nothing more. It hears of it at its next
// heartbeat.
func (p *Process) Quiet(ctx context.Context) error { return p.command(ctx, "TSTP") }

// Stop tells the process to stop in good order.
func (p *Process) Stop(ctx context.Context) error { return p.command(ctx, "TERM") }

// DumpThreads tells the process to log what all its threads do.
func (p *Process) DumpThreads(ctx context.Context) error { return p.signal(ctx, "TTIN") }

func (p *Process) command(ctx context.Context, name string) error {
	if p.Embedded {
		return fmt.Errorf("signal %s to %s: %w", name, p.Identity, ErrEmbedded)
	}
	return p.signal(ctx, name)
}

// signalTTL is how long a signal waits to be heard.
const signalTTL = 60 * time.Second

func (p *Process) signal(ctx context.Context, name string) error {
	pipe := p.in().db().TxPipeline()
	pipe.LPush(ctx, keys.Signals(p.Identity), name)
	pipe.Expire(ctx, keys.Signals(p.Identity), signalTTL)
	if cmds, err := pipe.Exec(ctx); err != nil {
		err = redisconn.Reason(cmds, err)
		return fmt.Errorf("signal %s to %s: %w", name, p.Identity, err)
	}
	return nil
}

func hmget(ctx context.Context, id string) *redis.SliceCmd {
	return redis.NewSliceCmd(ctx, "hmget", id, "info", "concurrency", "busy", "beat", "quiet", "rss", "rtt_us")
}

// process reads the fields of hmget; nil without info, which has gone with the
// last heartbeat.
func (i *Inspector) process(id string, fields []any) *Process {
	var text [7]string
	for n := range min(len(text), len(fields)) {
		text[n], _ = fields[n].(string)
	}
	if text[0] == "" {
		return nil
	}
	p := &Process{
		Identity: id, Info: json.RawMessage(text[0]),
		Busy: int(number(text[2])), Beat: timeOf(text[3]), Stopping: text[4] == "true",
		RSS: number(text[5]), RTT: time.Duration(number(text[6])) * time.Microsecond,
		i: i,
	}
	if info, err := troupe.ParsePayload(p.Info); err == nil {
		p.read(info) // else it is listed with what is known of it
	}
	if n, err := strconv.Atoi(text[1]); err == nil {
		p.Concurrency = n // from Sidekiq 8.1.2 on it is here
	}
	return p
}
