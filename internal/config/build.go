package config

import (
	"cmp"
	"fmt"
	"io"
	"net/http"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/handler"
	"github.com/troupehq/troupe/internal/handlerconf"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/wire"
)

// Daemon returns what the daemon of s is built from, with strategies of its own
// at each call. The handlers log to log; the builtin echo writes to stdout. It
// fails if a program has gone since Load.
func (s *Settings) Daemon(rdb redis.UniversalClient, log zerolog.Logger, stdout io.Writer) (actors.Config, error) {
	registry, err := s.registry(log, stdout)
	if err != nil {
		return actors.Config{}, err
	}
	c := actors.Config{
		Redis: rdb, Registry: registry, Logger: log, DoneLevel: zerolog.InfoLevel,
		Timeout: s.Timeout, Lease: s.Lease, Poison: s.Poison,
		Tag: s.Tag, Labels: s.Labels, Environment: s.Environment,
		MaxRetries: s.MaxRetries, DeadMax: s.DeadMax, DeadTimeout: s.DeadTimeout, Timestamps: s.Timestamps,
		Encryption: s.Keys, QueueLimits: s.queueLimits(), Periodic: s.Periodic, PeriodicTag: s.PeriodicTag, PeriodicElsewhere: s.PeriodicElsewhere, Zone: s.Zone,
		PollInterval: s.PollInterval, PollIntervalPerProcess: s.PollIntervalPerProcess,
		MaxIterationRuntime: s.MaxIterationRuntime, Metrics: s.Metrics, WorkersKey: s.WorkersKey,
	}
	if c.Strategy, err = s.Strategy.build(); err != nil {
		return actors.Config{}, fmt.Errorf("make strategy of the launcher: %w", err)
	}
	if c.Outboxes, err = s.relays(rdb); err != nil {
		return actors.Config{}, err
	}
	wires := map[string]*wire.Wire{}
	for _, k := range s.Capsules {
		w, err := s.wireOf(k, wires)
		if err != nil {
			return actors.Config{}, fmt.Errorf("capsule %s: %w", k.Name, err)
		}
		capsule := actors.Capsule{Name: k.Name, Wire: w, Unknown: s.unknownOf(k), Limits: k.Limits, Rest: k.Rest, Concurrency: k.Concurrency, Queues: k.Queues, Waiters: k.Waiters, FetchBytes: k.FetchBytes, MaxUnresponsive: k.MaxUnresponsive}
		if s.fetcher(k) == "basic" {
			capsule.Fetch = fetch.NewBasic
		}
		if capsule.Strategy, err = k.Strategy.build(); err != nil {
			return actors.Config{}, fmt.Errorf("make strategy of capsule %s: %w", k.Name, err)
		}
		c.Capsules = append(c.Capsules, capsule)
	}
	return c, nil
}

// fetcher is how k fetches: "reliable" or "basic".
func (s *Settings) fetcher(k capsule) string { return cmp.Or(k.Fetch, s.Fetch, "reliable") }

// concurrency is how many jobs may run at once.
func (s *Settings) concurrency() (n int) {
	for _, k := range s.Capsules {
		n += cmp.Or(k.Concurrency, limits.Concurrency)
	}
	return n
}

func (s *Settings) registry(log zerolog.Logger, stdout io.Writer) (*troupe.Registry, error) {
	var registry troupe.Registry
	transport := handlerconf.Transport(s.concurrency())
	for _, h := range s.Handlers {
		run, options, err := h.make(log, stdout, transport, s.Env)
		if err != nil {
			return nil, fmt.Errorf("make handler of %s: %w", h.Class, err)
		}
		options.Recovery = h.Recovery
		options.Take, options.RestQueue = h.Take, h.RestQueue
		options.Limits = s.limitsOf(h.Class)
		options.ExpireAfter, options.DropExpired, options.ResultFor = h.ExpireAfter, h.DropExpired, h.ResultFor
		troupe.HandleClass(&registry, h.Class, run, options)
	}
	return &registry, nil
}

func (h handlerEntry) make(log zerolog.Logger, stdout io.Writer, transport http.RoundTripper, env []variable) (troupe.Handler, troupe.Options, error) {
	switch {
	case h.Builtin != "":
		run, err := handler.Builtin(h.Builtin, stdout)
		return run, troupe.Options{Timeout: h.Timeout}, err
	case h.HTTP != nil:
		run, err := handler.NewHTTP(h.HTTP.options(h.Timeout, transport))
		return run, troupe.Options{}, err
	}
	// The program's timeout is the handler's affair, not the job context's: so it
	// can tell a shutdown that comes while the program is already being ended.
	run, err := handler.NewExec(handler.ExecOptions{Command: h.Exec, Env: names(env, h.Env), Timeout: h.Timeout, Result: h.Result, Logger: log})
	return run, troupe.Options{}, err
}
