package actors

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/run"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/logs"
	"github.com/troupehq/troupe/internal/words"
)

// hooks runs lifecycle callbacks in their order, in a goroutine of their own: one
// that blocks delays the later callbacks and nothing else.
type hooks struct {
	log zerolog.Logger

	mu   sync.Mutex
	last chan struct{} // closed when everything fired so far has run
	beat chan struct{} // closed when the last beat's callbacks have run; nil before
}

func newHooks(log zerolog.Logger) *hooks {
	done := make(chan struct{})
	close(done)
	return &hooks{log: log, last: done}
}

// fire runs fs after everything fired before.
func (h *hooks) fire(event string, fs []func(context.Context)) {
	if len(fs) == 0 {
		return
	}
	h.mu.Lock()
	before, done := h.last, make(chan struct{})
	h.last = done
	h.mu.Unlock()
	go func() {
		defer close(done)
		<-before
		h.run(event, fs)
	}()
}

func (h *hooks) run(event string, fs []func(context.Context)) {
	for _, f := range fs {
		if err := supervised.Isolate(func() { f(context.Background()) }); err != nil {
			h.failed(event, f, err)
		}
	}
}

// failed tells that f, a callback of event, has panicked or called Goexit.
func (h *hooks) failed(event string, f any, err error) {
	supervised.Tell(func() {
		logs.Err(h.log.Error().Str("event", event).Str("callback", funcName(f)), err).
			Bytes("stack", stackOf(err)).Msg("a lifecycle callback failed")
	})
}

// wait waits for everything fired so far, at most d.
func (h *hooks) wait(d time.Duration) {
	h.mu.Lock()
	last := h.last
	h.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-last:
	case <-t.C:
		supervised.Tell(func() { h.log.Error().Msg("a lifecycle callback did not return; going on without it") })
	}
}

// fireBeat runs the callbacks of a beat unless those of the last one still run.
func (h *hooks) fireBeat(first, every []func(context.Context)) {
	if len(first)+len(every) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.beat != nil {
		select {
		case <-h.beat:
		default:
			h.log.Error().Str("event", "beat").Msg("the callbacks of the last beat still run; skipping this one")
			return
		}
	}
	done := make(chan struct{})
	h.beat = done
	go func() {
		defer close(done)
		h.run("heartbeat", first)
		h.run("beat", every)
	}()
}

// beaten fires the events of a beat; first when Redis did not know this process.
func (d *Daemon) beaten(first bool) {
	var heartbeat []func(context.Context)
	if first {
		heartbeat = d.cfg.On.Heartbeat
	}
	d.hooks.fireBeat(heartbeat, d.cfg.On.Beat)
}

// onJobError tells the error handlers of a job; nil if there are none.
func (d *Daemon) onJobError() func(error, run.Failure) {
	if len(d.cfg.ErrorHandlers) == 0 {
		return nil
	}
	return func(err error, in run.Failure) {
		d.tellErrorHandlers(err, ErrorContext{Actor: in.Actor, Message: in.Message, Payload: in.Payload, Queue: in.Queue})
	}
}

// tellErrorHandlers tells the error handlers.
func (d *Daemon) tellErrorHandlers(err error, in ErrorContext) {
	for _, f := range d.cfg.ErrorHandlers {
		if perr := supervised.Isolate(func() { f(context.Background(), err, in) }); perr != nil {
			logs.Err(d.env.Log.Error().Str("actor", in.Actor), perr).Msg("an error handler failed")
		}
	}
}

// tellDeathHandlers tells them.
func (d *Daemon) tellDeathHandlers(p *troupe.Payload, err error) {
	for _, f := range d.cfg.DeathHandlers {
		if perr := supervised.Isolate(func() { f(context.Background(), p, err) }); perr != nil {
			logs.Err(d.env.Log.Error().Str("jid", words.Text(p.JID())), perr).Msg("a death handler failed")
		}
	}
}

func reversed[T any](s []T) []T {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}
