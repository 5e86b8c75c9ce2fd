package main

import (
	"context"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/config"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/operate"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/redisconn"
)

func runCommand() *cobra.Command {
	var flags config.Flags
	var queues []string
	var version bool
	var dashboard dashboard
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon",
		Long: `Run works off the queues of a Redis with the handlers of a configuration file.

The flags are Sidekiq's. What they do not say is taken from the file, then from
the environment (REDIS_URL, REDIS_PROVIDER, RAILS_MAX_THREADS, APP_ENV,
RAILS_ENV, RACK_ENV). A file needs handlers:, the rest has defaults:

  concurrency: 10
  queues: [[critical, 3], default]
  handlers:
    NoOp:         {builtin: noop}   # also sleep, fail, panic, echo
    ThumbnailJob: {exec: [/usr/local/bin/thumb, --stdin], timeout: 2m}
    WebhookJob:   {http: "https://hooks.internal/jobs", timeout: 10s}

Signals: TSTP stops fetching; TERM or INT stops the daemon: running jobs have
the time of -t to end, then they go back to their queues; TTIN logs the tree and
all stacks; HUP reads the file again and changes concurrency and queues of running
capsules, and the numbers of limits: a faulty file changes nothing, and the log says why. Logs go to stderr.`,
		Example: "  troupe run -C troupe.yml -c 20 -q critical,3 -q default",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("argument is %q, expected flags only", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if version {
				return printVersion(cmd)
			}
			if err := cli.Empty(cmd.Flags()); err != nil {
				return err
			}
			if flags.Queues, err = config.ParseQueues("-q", queues); err != nil {
				return err
			}
			return run(cmd, flags, dashboard)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.VarP(cli.Number(&flags.Concurrency, 1, limits.MaxConcurrency), "concurrency", "c", fmt.Sprintf("processors, of the capsule default (%d)", limits.Concurrency))
	f.VarP(queueFlag{&queues}, "queue", "q", "queue to work on, repeatable; of the capsule default (default)")
	f.VarP(wordFlag{&flags.File, "FILE"}, "config", "C", "configuration file (troupe.yml, config/sidekiq.yml)")
	f.VarP(wordFlag{&flags.Environment, "ENV"}, "environment", "e", "environment (development)")
	f.VarP(wordFlag{&flags.Tag, "TAG"}, "tag", "g", "tag of the process in Sidekiq's UI (the working directory's name)")
	f.VarP(cli.Span(&flags.Timeout), "timeout", "t", fmt.Sprintf("time that running jobs have to end at a stop (%s)", limits.Timeout))
	f.Var(wordFlag{&flags.Ops, "ADDR"}, "ops", "serve probes and metrics there, such as 0.0.0.0:9433; :9433 is for this machine alone (nowhere)")
	f.Var(wordFlag{&dashboard.addr, "ADDR"}, "web", "serve the dashboard there, such as 127.0.0.1:8080 (nowhere)")
	operate.WebFlags(f, "web-", &dashboard.Options)
	f.StringVar(&dashboard.Args, "web-args", "mask", "arguments of jobs on the dashboard: mask secrets, hide or show them")
	f.BoolVar(&dashboard.ReadOnly, "web-read-only", false, "a dashboard that changes nothing")
	f.BoolVarP(&flags.Verbose, "verbose", "v", false, "log more")
	f.BoolVarP(&version, "version", "V", false, "print the version")
	f.Var(wordFlag{&flags.Redis, "URL"}, "redis", "Redis to use (redis://localhost:6379/0)")
	return cmd
}

func run(cmd *cobra.Command, flags config.Flags, dashboard dashboard) error {
	osproc.GoOnWithoutReaders()
	settings, err := config.Load(flags, os.Getenv)
	if err != nil {
		return err
	}
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00" // this process is ours
	log, flush := newLogger(cmd.ErrOrStderr(), settings.LogFormat, settings.Level)
	defer flush() // after a panic, too
	redis.SetLogger(newDriverLog(log))
	for _, w := range settings.Warnings {
		log.Warn().Str("file", w.File).Int("line", w.Line).Str("field", w.Field).Str("why", w.Ignored).Msg("setting ignored")
	}
	trees := settings.Trees
	if len(trees) == 0 {
		trees = []config.Tree{{Settings: settings}}
	}
	var shards []actors.Shard
	for _, tree := range trees {
		rdb, err := redisconn.FromURL(tree.Settings.RedisURL, redisconn.Need{})
		if err != nil {
			return err
		}
		defer func() { _ = rdb.Close() }()
		cfg, err := tree.Settings.Daemon(rdb, log, cmd.OutOrStdout())
		if err != nil {
			return err
		}
		cfg.Reload = func() ([]actors.Capsule, []troupe.Limit, error) { return reload(tree.Settings, flags, tree.Shard, log) }
		cfg.On.Quiet = append(cfg.On.Quiet, func(context.Context) { flush() })
		log.Debug().Str("file", settings.Path).Str("redis", redisconn.Describe(tree.Settings.RedisURL)).
			Str("shard", tree.Shard).Strs("classes", cfg.Registry.Classes()).Msg("configured")
		shards = append(shards, actors.Shard{Name: tree.Shard, Config: cfg})
	}
	if settings.Ops != "" {
		stop, err := serveOps(cmd.Context(), settings.Ops, log, shards)
		if err != nil {
			return err
		}
		defer stop()
	}
	if dashboard.addr != "" {
		stop, err := dashboard.serve(cmd.Context(), log, settings, shards)
		if err != nil {
			return err
		}
		defer stop()
	}
	if code := actors.MainShards(cmd.Context(), shards...); code != actors.ExitOK {
		return exitCode(code)
	}
	return nil
}

// reload reads the configuration anew, for a daemon that runs with the settings s.
func reload(s *config.Settings, flags config.Flags, shard string, log zerolog.Logger) ([]actors.Capsule, []troupe.Limit, error) {
	next, err := config.Load(flags, os.Getenv)
	if err != nil {
		return nil, nil, err
	}
	capsules, all, ignored, err := s.Reload(next, shard)
	if len(ignored) > 0 && err == nil {
		log.Warn().Strs("settings", ignored).Msg("these settings have changed and take a restart")
	}
	return capsules, all, err
}

func checkCommand() *cobra.Command {
	var flags config.Flags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Tell everything that is wrong with a configuration file",
		Long: `Check reads a configuration file as "troupe run" would, in this environment and
without a Redis, and tells all of its faults at once: line, field, value and what
was expected. It exits with 1 if there are any, else it shows what would run:
capsules, queues, strategies, handlers. Credentials are not shown.`,
		Example: "  troupe check -C config/sidekiq.yml -e production",
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := config.Load(flags, os.Getenv)
			for _, w := range settings.Warnings {
				_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "troupe: warning: "+w.Error())
			}
			if err != nil {
				return err
			}
			if _, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: ok, %d handlers, environment %s\n",
				settings.Path, len(settings.Handlers), settings.Environment); err != nil {
				return err
			}
			return settings.Summary(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.VarP(wordFlag{&flags.File, "FILE"}, "config", "C", "configuration file (troupe.yml, config/sidekiq.yml)")
	f.VarP(wordFlag{&flags.Environment, "ENV"}, "environment", "e", "environment (development)")
	return cmd
}
