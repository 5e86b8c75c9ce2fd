package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/config"
	"github.com/troupehq/troupe/internal/rights"
	"github.com/troupehq/troupe/web"
)

// dashboard is what --web says.
type dashboard struct {
	addr string // "" is none
	web.Options
}

// serve serves the dashboard of a daemon's Redis, with the tree of the daemon as it is now, until
// stop is called. It has begun when serve returns.
func (o dashboard) serve(ctx context.Context, log zerolog.Logger, settings *config.Settings, shards []actors.Shard) (stop func(), err error) {
	if len(shards) > 1 {
		return nil, fmt.Errorf("--web is %q with %d shards, expected one: troupe web --redis serves the dashboard of each", o.addr, len(shards))
	}
	var mu sync.Mutex
	var daemons []*actors.Daemon
	on := &shards[0].Config.On
	on.Created = append(on.Created, func(d *actors.Daemon) {
		mu.Lock()
		defer mu.Unlock()
		daemons = append(daemons, d)
	})
	o.DeadMax, o.DeadTimeout = settings.DeadSet()
	o.Redis, o.Logger = shards[0].Config.Redis, log
	o.Trees = func() map[string]actors.Tree {
		mu.Lock()
		defer mu.Unlock()
		trees := map[string]actors.Tree{}
		for _, d := range daemons {
			trees[d.Identity()] = d.Tree()
		}
		return trees
	}
	h, err := web.New(o.Options)
	if err != nil {
		return nil, err
	}
	lacks, err := rights.CheckTool(ctx, o.Redis, rights.Dashboard(!o.ReadOnly, o.Users != ""))
	if err != nil { // jobs run without it
		lacks = append(lacks, err.Error())
	}
	for _, text := range lacks {
		log.Warn().Msg(text)
	}
	ctx, cancel := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- h.Serve(ctx, o.addr, func(url string) {
			log.Info().Str("url", url).Msg("the dashboard is served")
			close(ready)
		})
	}()
	select {
	case err := <-ended:
		cancel()
		return nil, fmt.Errorf("--web: %w", err)
	case <-ready:
	}
	return func() {
		cancel()
		if err := <-ended; err != nil {
			log.Error().Err(err).Str("addr", o.addr).Msg("the dashboard has ended")
		}
	}, nil
}
