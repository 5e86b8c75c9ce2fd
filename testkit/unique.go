package testkit

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
)

// uniquePush is a job of a push of unique jobs, as the client's script has it.
type uniquePush struct {
	lock string // key
	jid  string
	job  Pushed
}

// uniqueArgs is how many arguments the client's script for unique jobs has for each job.
const uniqueArgs = 8

// uniqueOf reads the jobs out of a call of that script; nil for another command.
func uniqueOf(cmd redis.Cmder) ([]uniquePush, error) {
	args := cmd.Args()
	if scriptOf(cmd) != "client.unique" {
		return nil, nil
	}
	n, ok := args[2].(int)
	if !ok {
		return nil, fmt.Errorf("testkit: %v keys of a push", args[2])
	}
	if len(args) < 3+n || (len(args)-3-n)%uniqueArgs != 0 {
		return nil, fmt.Errorf("testkit: a push of unique jobs with %d keys has %d arguments", n, len(args)-3)
	}
	key := func(number any) string {
		if i, ok := number.(int); ok {
			return fmt.Sprint(args[2+i])
		}
		return ""
	}
	var all []uniquePush
	for at := 3 + n; at < len(args); at += uniqueArgs {
		raw, _ := args[at+6].([]byte)
		p, err := troupe.ParsePayload(raw)
		if err != nil {
			return nil, fmt.Errorf("testkit: a push of what is no job: %w", err)
		}
		u := uniquePush{lock: key(args[at]), jid: fmt.Sprint(args[at+1]), job: Pushed{Payload: p}}
		if score := fmt.Sprint(args[at+5]); score != "" {
			if u.job.At, err = timeOf(score); err != nil {
				return nil, err
			}
		}
		all = append(all, u)
	}
	return all, nil
}

// pushUnique answers the script, or lets it pass, and notes the jobs that it has pushed.
func (h hook) pushUnique(ctx context.Context, cmd redis.Cmder, unique []uniquePush, next redis.ProcessHook) error {
	reply, ok := cmd.(*redis.Cmd)
	if !ok {
		return fmt.Errorf("testkit: a push of unique jobs as a %T", cmd)
	}
	if h.pass {
		if err := next(ctx, cmd); err != nil {
			return err
		}
	} else {
		reply.SetVal(h.p.lock(unique))
	}
	said, err := reply.StringSlice()
	if err != nil {
		return err
	}
	var jobs []Pushed
	for i, text := range said {
		if text == "" && i < len(unique) {
			jobs = append(jobs, unique[i].job)
		}
	}
	err = h.p.add(ctx, jobs)
	if err != nil {
		cmd.SetErr(err)
	}
	return err
}

// lock takes the locks of jobs, and returns what the script would.
func (p *Pushes) lock(unique []uniquePush) (said []any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.locks == nil {
		p.locks = map[string]string{}
	}
	for _, u := range unique {
		holder, held := p.locks[u.lock]
		switch {
		case !held:
			p.locks[u.lock] = u.jid
			said = append(said, "")
		case holder == u.jid:
			said = append(said, "a")
		default:
			said = append(said, "d"+holder)
		}
	}
	return said
}

// unlock frees the lock of a job that is at this point of its run, if it holds the lock until then.
func (p *Pushes) unlock(l *job.Lock, at troupe.UniqueUntil) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l != nil && l.Until == at && p.locks[l.Key] == l.JID {
		delete(p.locks, l.Key)
	}
}
