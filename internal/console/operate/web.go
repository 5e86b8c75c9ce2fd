package operate

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/logs"
	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/rights"
	"github.com/troupehq/troupe/web"
)

func webCommand(files cli.Files) *cobra.Command {
	var listen string
	var options web.Options
	cmd := spec{
		use: "web", short: "Serve the dashboard", args: cli.Args(0, 0),
		long: `Web serves the dashboard: pages that show the fleet and steer it, from Redis alone. Without users it
is for this machine alone: it refuses to listen on an address that others reach. With a
users file people sign in, and programs send tokens; docs/web.md has the rest. With --read-only
there is nothing on it that changes anything. It ends at INT and TERM.`,
		example: "  troupe web\n  troupe web --listen 127.0.0.1:9000 --base-path /jobs --read-only\n  troupe web --listen 0.0.0.0:8080 --users users --trust-proxy 10.0.0.0/8",
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&listen, "listen", "127.0.0.1:8080", "address to listen on")
			WebFlags(f, "", &options)
		},
		run: func(ctx context.Context, s *cli.Session, _ []string) error {
			osproc.GoOnWithoutReaders()
			ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
			defer stop()
			options.Redis, options.ReadOnly, options.Args = s.Redis, s.ReadOnly, s.Args
			options.DeadMax, options.DeadTimeout = s.Inspector.DeadMax, s.Inspector.DeadTimeout
			log := logs.New(s.Err)
			defer log.Flush()
			options.Logger = zerolog.New(log).With().Timestamp().Logger()
			return serve(ctx, s, listen, options)
		},
	}.command(files)
	cmd.AddCommand(webUserCommand(), webTokenCommand())
	return cmd
}

// serve serves the dashboard until ctx ends.
func serve(ctx context.Context, s *cli.Session, listen string, options web.Options) error {
	warnings, err := rights.CheckTool(ctx, s.Redis, rights.Dashboard(!options.ReadOnly, options.Users != ""))
	if err != nil {
		return &cli.ExitError{Code: cli.Refused, Err: err}
	}
	for _, text := range warnings {
		options.Logger.Warn().Msg(text)
	}
	h, err := web.New(options)
	if err != nil {
		return cli.Exitf(cli.Fault, "%w", err)
	}
	err = h.Serve(ctx, listen, func(url string) {
		_ = said(s, nil, map[string]string{"url": url}, "the dashboard of %s is at %s", s.Address, url)
	})
	if err != nil {
		return cli.Exitf(cli.Fault, "%w", err)
	}
	return nil
}
