package main

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/ops"
)

// serveOps serves probes and metrics at addr from the making of the daemons on, before they start, until stop
// is called. A port of its own has its own time-outs: who asks slowly is cut off.
func serveOps(ctx context.Context, addr string, log zerolog.Logger, shards []actors.Shard) (stop func(), err error) {
	listener, err := cli.Listen(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("--ops is %q, expected an address to listen on: %w", addr, err)
	}
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: stdlog.New(log.With().Str("from", "ops").Logger(), "", 0),
	}
	var daemons []*actors.Daemon
	for i := range shards {
		on := &shards[i].Config.On
		on.Created = append(on.Created, func(d *actors.Daemon) {
			if daemons = append(daemons, d); len(daemons) < len(shards) {
				return
			}
			server.Handler = ops.Handler(daemons...)
			go func() {
				if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
					log.Error().Err(err).Str("addr", addr).Msg("probes and metrics are not served any more")
				}
			}()
			log.Info().Stringer("addr", listener.Addr()).Msg("probes and metrics are served")
		})
	}
	return func() { _, _ = server.Close(), listener.Close() }, nil
}
