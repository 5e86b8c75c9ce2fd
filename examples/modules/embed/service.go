package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
)

// requestTime is how long requests may take to end when the service stops.
const requestTime = 10 * time.Second

// errGaveUp wraps the reason for which the daemon stopped by itself.
var errGaveUp = errors.New("the job daemon gave up")

// Order is the job of an order.
type Order struct {
	ID    int64  `arg:"0"`
	Email string `arg:"1"`
}

// Class is its name on the wire.
func (Order) Class() string { return "Shop::Fulfil" }

// Defaults are the options of all its jobs: a push and the daemon take them from here.
func (Order) Defaults() troupe.Options {
	return troupe.Options{Queue: "orders", Retries: troupe.Times(5)}
}

type service struct {
	log    zerolog.Logger
	rdb    redis.UniversalClient
	ship   func(context.Context, Order) error
	jobs   *client.Client
	daemon *actors.Daemon

	stopping atomic.Bool
}

func newService(rdb redis.UniversalClient, log zerolog.Logger, ship func(context.Context, Order) error) *service {
	return &service{log: log, rdb: rdb, ship: ship, jobs: client.New(rdb)}
}

// config is that of the daemon inside.
func (s *service) config() actors.Config {
	var jobs troupe.Registry
	troupe.Handle(&jobs, func(ctx context.Context, j *troupe.Job[Order]) error { return s.ship(ctx, j.Args) },
		troupe.Timeout(time.Minute))
	troupe.HandleClass(&jobs, "Audit", troupe.HandlerFunc(s.audit)) // a raw handler sees the payload as it is
	return actors.Config{
		Redis:      s.rdb, // its options are used; the daemon opens connections of its own
		Registry:   &jobs,
		Logger:     s.log,
		Embedded:   true, // Sidekiq's UI then offers no Stop button
		Timeout:    25 * time.Second,
		Middleware: []troupe.Middleware{s.timed},
		Capsules:   []actors.Capsule{{Concurrency: 5, Queues: actors.Strict{"orders", "default"}}},
		DeathHandlers: []actors.DeathHandler{func(_ context.Context, p *troupe.Payload, err error) {
			s.log.Error().Str("jid", p.JID()).Err(err).Msg("this job will not run again")
		}},
		On: actors.Events{
			Quiet: []func(context.Context){func(context.Context) { s.log.Info().Msg("no new jobs") }},
		},
	}
}

// run serves until ctx ends, the listener breaks or the daemon gives up, and
// then ends everything in order.
func (s *service) run(ctx context.Context, listener net.Listener) (err error) {
	defer func() { _ = listener.Close() }() // should the daemon not start
	if s.daemon, err = actors.New(s.config()); err != nil {
		return err
	}
	if err := s.daemon.Start(ctx); err != nil {
		return err
	}
	server := &http.Server{Handler: s.routes(), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	s.log.Info().Str("addr", listener.Addr().String()).Msg("listening")

	select {
	case <-ctx.Done():
	case err = <-served:
	case <-s.daemon.Done():
	}
	s.stopping.Store(true)
	s.log.Info().Msg("stopping")
	requests, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
	defer cancel()
	if cut := server.Shutdown(requests); cut != nil {
		s.log.Warn().Err(cut).Msg("requests were cut off")
		_ = server.Close()
	}
	s.log.Info().Msg("no more requests")
	report, _ := s.daemon.Stop(context.WithoutCancel(ctx)) // bounded by Timeout, a grace of 3 s, and some
	s.log.Info().Object("report", report).Msg("no more jobs")
	if cause := s.daemon.Err(); cause != nil {
		return fmt.Errorf("%w: %w", errGaveUp, cause)
	}
	return err
}

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.order)
	mux.HandleFunc("GET /health", s.health)
	return mux
}

// order takes an order: once the push has returned, it is safe.
func (s *service) order(w http.ResponseWriter, r *http.Request) {
	var o Order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&o); err != nil || o.ID <= 0 {
		http.Error(w, `expected {"ID": 1, "Email": "a@example.com"}`, http.StatusBadRequest)
		return
	}
	jid, err := s.jobs.Push(r.Context(), o)
	if err != nil {
		s.log.Error().Err(err).Msg("push")
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(map[string]string{"job": jid})
}

func (s *service) audit(_ context.Context, p *troupe.Payload) error {
	s.log.Info().Str("jid", p.JID()).Int("bytes", len(p.Args())).Msg("audit")
	return nil
}

// timed is a middleware: a function from handler to handler, as in net/http.
func (s *service) timed(next troupe.Handler) troupe.Handler {
	return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		start := time.Now()
		err := next.Perform(ctx, p)
		s.log.Debug().Str("jid", p.JID()).Dur("took", time.Since(start)).Err(err).Msg("timed")
		return err
	})
}
