package testkit

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
)

// debounced is a push that client.Debounce made, as the client's script has it.
type debounced struct {
	key           string
	jid           string // as JSON
	before, after string // the text of the job around it
	now, due, max float64
}

// debouncedOf reads a push out of a call of the client's script for debounced ones; nil for another command.
func debouncedOf(cmd redis.Cmder) (*debounced, error) {
	args := cmd.Args()
	if len(args) != 13 || scriptOf(cmd) != "client.debounce" {
		return nil, nil
	}
	text := func(i int) string {
		if raw, ok := args[i].([]byte); ok {
			return string(raw)
		}
		return fmt.Sprint(args[i])
	}
	d := &debounced{key: text(4), jid: text(6), before: text(10), after: text(11)}
	for i, to := range []*float64{&d.now, &d.due, &d.max} {
		var err error
		if *to, err = strconv.ParseFloat(text(7+i), 64); err != nil {
			return nil, fmt.Errorf("testkit: a debounced push: %w", err)
		}
	}
	return d, nil
}

// pushDebounced answers the script, or lets it pass, and notes the job.
func (h hook) pushDebounced(ctx context.Context, cmd redis.Cmder, d *debounced, next redis.ProcessHook) error {
	reply, ok := cmd.(*redis.Cmd)
	if !ok {
		return fmt.Errorf("testkit: a debounced push as a %T", cmd)
	}
	if h.pass {
		if err := next(ctx, cmd); err != nil {
			return err
		}
		if jid, err := reply.Text(); err == nil {
			d.jid = jid
		}
	} else {
		h.p.debounce(d)
		reply.SetVal(d.jid)
	}
	payload, err := troupe.ParsePayload([]byte(d.before + d.jid + d.after))
	if err != nil {
		return fmt.Errorf("testkit: a push of what is no job: %w", err)
	}
	j, err := h.p.opened(Pushed{Payload: payload, At: time.UnixMicro(int64(d.due * 1e6))})
	if err != nil {
		cmd.SetErr(err)
		return err
	}
	if h.p.replace(j) {
		return nil
	}
	if err = h.p.add(ctx, []Pushed{j}); err != nil {
		cmd.SetErr(err)
	}
	return err
}

// debounce gives d the jid of the job that waits under its key, and the time at which it is due.
func (p *Pushes) debounce(d *debounced) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.debounces == nil {
		p.debounces = map[string]debounced{}
	}
	first, known := p.debounces[d.key]
	if known && slices.ContainsFunc(p.waiting, func(j Pushed) bool { return jidText(j) == first.jid }) {
		d.jid = first.jid
	} else {
		first = *d
		p.debounces[d.key] = first
	}
	if latest := first.now + d.max; d.max > 0 && latest < d.due {
		d.due = latest
	}
}

// replace puts j in the place of the job with its jid, if there is one that was not run yet.
func (p *Pushes) replace(j Pushed) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	same := func(other Pushed) bool { return jidText(other) == jidText(j) }
	i := slices.IndexFunc(p.waiting, same)
	if i < 0 {
		return false
	}
	p.waiting[i] = j
	for i := range slices.Backward(p.all) {
		if same(p.all[i]) {
			p.all[i] = j
			break
		}
	}
	return true
}

func jidText(j Pushed) string {
	raw, _ := j.Get("jid")
	return string(raw)
}
