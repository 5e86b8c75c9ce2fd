package config

import (
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/handler"
)

// Daemon returns what the daemon of s is built from. The handlers log to log;
// the builtin echo writes to stdout. It fails if a program has gone since Load.
func (s *Settings) Daemon(rdb redis.UniversalClient, log zerolog.Logger, stdout io.Writer) (actors.Config, error) {
	registry, err := s.registry(log, stdout)
	if err != nil {
		return actors.Config{}, err
	}
	c := actors.Config{
		Redis: rdb, Registry: registry, Logger: log,
		Timeout: s.Timeout, Lease: s.Lease,
		Tag: s.Tag, Labels: s.Labels, Environment: s.Environment,
		MaxRetries: s.MaxRetries, DeadMax: s.DeadMax, DeadTimeout: s.DeadTimeout, Timestamps: s.Timestamps,
		PollInterval: s.PollInterval, PollIntervalPerProcess: s.PollIntervalPerProcess,
	}
	for _, k := range s.Capsules {
		c.Capsules = append(c.Capsules, actors.Capsule{Name: k.Name, Concurrency: k.Concurrency, Queues: k.Queues})
	}
	return c, nil
}

func (s *Settings) registry(log zerolog.Logger, stdout io.Writer) (*troupe.Registry, error) {
	var registry troupe.Registry
	for _, h := range s.Handlers {
		run, options, err := h.make(log, stdout)
		if err != nil {
			return nil, fmt.Errorf("make handler of %s: %w", h.Class, err)
		}
		troupe.HandleClass(&registry, h.Class, run, options)
	}
	return &registry, nil
}

func (h Handler) make(log zerolog.Logger, stdout io.Writer) (troupe.Handler, troupe.ClassOptions, error) {
	if h.Builtin != "" {
		run, err := handler.Builtin(h.Builtin, stdout)
		return run, troupe.ClassOptions{Timeout: h.Timeout}, err
	}
	// The program's timeout is the handler's affair, not the job context's: so it
	// can tell a shutdown that comes while the program is already being ended.
	run, err := handler.NewExec(h.Exec, h.Timeout, log)
	return run, troupe.ClassOptions{}, err
}
