package actors

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/reap"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/osproc"
)

// Exit codes of Main.
const (
	ExitOK         = 0  // a clean stop, whatever had to be requeued
	ExitBoot       = 1  // a bad configuration, Redis unreachable or too old, a failed startup callback
	ExitMemory     = 12 // a capsule's Limits.Memory was reached
	ExitEscalation = 70 // the supervision tree gave up and the daemon stopped itself
)

// Run runs a daemon inside a program of yours. Cancelling ctx starts the
// graceful stop; it does not abort jobs. Run returns nil after a clean stop, also if the daemon
// was still starting. Otherwise it returns why the daemon could not start or had to stop by itself.
func Run(ctx context.Context, cfg Config) error {
	d, err := New(cfg)
	if err != nil {
		return err
	}
	if err := d.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	select {
	case <-ctx.Done():
		d.beginStop(d.cfg.Timeout)
		<-d.ended
	case <-d.ended:
	}
	return d.Err()
}

// Main is a whole main function: it runs the daemon until SIGTERM or SIGINT and
// returns the exit code. SIGTSTP quiets it, SIGTTIN logs the tree and all
// goroutine stacks, SIGHUP is for Config.Reload. Under systemd it
// reports READY, STOPPING, a status line and, as long as Health says that all is Live, the watchdog.
//
// The process goes on when nobody reads its stdout or stderr any more: writes to them fail then. And
// Main guards each Config.Logger, see GuardLog. As process 1 of a container, or as a subreaper, it reaps orphans (Linux),
// and takes no exit status of what the program has started with packages os and os/exec.
//
// Windows has neither SIGTSTP nor SIGTTIN. There Ctrl-C and Ctrl-Break are
// SIGINT; SIGTERM comes when the console is closed, at logoff and at shutdown,
// and Windows kills the process some seconds later, whatever Timeout is.
func Main(cfg Config) int { return MainShards(context.Background(), Shard{Config: cfg}) }

// MainShards is Main for a process that works on several Redis servers, with one set of
// signals and one stop. The end of ctx is one more way to stop.
func MainShards(ctx context.Context, shards ...Shard) int {
	osproc.FloorHeap()
	osproc.GoOnWithoutReaders()
	shards = slices.Clone(shards)
	for i := range shards {
		var flush func()
		shards[i].Config.Logger, flush = GuardLog(shards[i].Config.Logger)
		defer flush()
	}
	reaping, endReaping := context.WithCancel(context.WithoutCancel(ctx))
	defer endReaping()
	if err := reap.Start(reaping); err != nil && len(shards) > 0 {
		shards[0].Config.Logger.Warn().Err(err).Msg("what the programs of jobs leave behind stays as zombies: it cannot be told from other processes")
	}
	// before the start, so that a signal during the boot is not fatal
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, osproc.Quiet, osproc.Dump)
	// For good: a signal that comes while the process ends must not end it with the default action, and
	// another exit code.
	for _, s := range shards {
		if s.Config.Reload != nil {
			signal.Notify(signals, osproc.Reload)
		}
	}

	d, err := NewGroup(shards...)
	if err != nil {
		return bootFailed(shards, err)
	}
	boot, cancel := context.WithCancel(ctx)
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- d.Start(boot) }()
	var early []os.Signal
	var giveUp <-chan time.Time
	asked := ctx.Done()
	stop := func() { // a stop during the boot: nothing was fetched yet
		cancel()
		giveUp = time.After(bootPatience) // a hung Redis does not hear of the cancel
	}
	for waiting := true; waiting; {
		select {
		case err := <-started:
			if err != nil {
				if giveUp != nil {
					return ExitOK
				}
				return bootFailed(shards, err)
			}
			waiting = false
		case s := <-signals:
			early = append(early, s)
			if s == syscall.SIGTERM || s == syscall.SIGINT {
				stop()
			}
		case <-asked:
			asked = nil
			stop()
		case <-giveUp:
			return ExitOK
		}
	}
	for _, s := range early {
		d.signal(s)
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	notifying, endNotifying := context.WithCancel(context.Background())
	defer endNotifying()
	go d.tellSystemd(notifying)
	done := ctx.Done()
	for {
		select {
		case <-d.ended:
			switch err := d.Err(); {
			case errchain.Is(err, ErrMemory):
				return ExitMemory
			case err != nil:
				return ExitEscalation
			}
			return ExitOK
		case <-done:
			done = nil
			d.signal(syscall.SIGTERM)
		case s := <-signals:
			d.signal(s)
		}
	}
}

// bootPatience is how long a stop during the boot waits for the boot to notice.
const bootPatience = time.Second

func bootFailed(shards []Shard, err error) int {
	if len(shards) > 0 {
		shards[0].Config.Logger.Error().Err(err).Msg("cannot start")
	}
	return ExitBoot
}

// signal obeys a signal of the operating system.
func (d *Daemon) signal(s os.Signal) {
	switch s {
	case syscall.SIGTERM, syscall.SIGINT:
		_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
		d.beginStop(d.cfg.Timeout)
	case osproc.Quiet:
		d.Quiet()
	case osproc.Reload:
		d.env.System.Spawn(heart, d.reload)
	case osproc.Dump:
		d.env.System.Spawn(heart, d.DumpStacks) // a large tree takes a while; signals do not wait
	}
}

// reload configures the capsules as Config.Reload says.
func (d *Daemon) reload() {
	if d.cfg.Reload == nil {
		return
	}
	ctx, cancel := d.env.Call()
	defer cancel()
	var capsules []Capsule
	var all []troupe.Limit
	var err error
	if failed := supervised.Isolate(func() { capsules, all, err = d.cfg.Reload() }); failed != nil {
		err = failed
	}
	if err == nil {
		err = d.Configure(ctx, capsules...)
	}
	if err == nil {
		err = d.ConfigureLimits(ctx, all...)
	}
	if err != nil {
		d.env.Log.Error().Err(err).Msg("the configuration was not reloaded")
		return
	}
	d.env.Log.Info().Msg("the configuration was reloaded")
}

// remote obeys a signal that came through Redis, from Sidekiq's UI or API.
func (d *Daemon) remote(name string) {
	if d.cfg.Embedded {
		d.env.Log.Warn().Str("signal", name).Msg("ignored a remote signal: this process is embedded")
		return
	}
	d.env.Log.Info().Str("signal", name).Msg("remote signal")
	switch name {
	case "TERM", "INT":
		d.signal(syscall.SIGTERM)
	case "TSTP":
		d.signal(osproc.Quiet)
	case "TTIN":
		d.signal(osproc.Dump)
	default:
		d.env.Log.Warn().Str("signal", name).Msg("unknown remote signal ignored")
	}
}

// DumpStacks logs the tree and the stacks of all goroutines.
func (d *Daemon) DumpStacks() {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 2)
	d.env.Log.Warn().Str("tree", d.Tree().String()).Str("goroutines", b.String()).Msg("dump")
}
