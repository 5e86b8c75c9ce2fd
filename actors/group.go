package actors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/troupehq/troupe/internal/osproc"
)

// Shard is one Redis of a process that works on several, with all that works on
// it: a whole daemon of its own.
type Shard struct {
	Name   string // for logs and errors; "" for the only one
	Config Config // the stateless strategies of package supervisor may be shared
}

// Group is one process's daemons on several Redis servers, one for each. Every
// server sees an ordinary process, with its own heartbeat, poller and rescuer;
// an outage of one does not concern the others. They start together, and when
// one of them ends, for whatever reason, all stop: a process is whole or gone.
// NewGroup makes one. All methods are safe for concurrent use.
type Group struct {
	shards  []Shard
	daemons []*Daemon
	ended   chan struct{} // closed when all have ended
}

// NewGroup builds the daemons; it does not touch the network. The error tells
// all faults of all shards.
func NewGroup(shards ...Shard) (*Group, error) {
	g := &Group{shards: shards, ended: make(chan struct{})}
	var errs []error
	if len(shards) == 0 {
		errs = append(errs, errors.New("config: no shards, expected at least one"))
	}
	seen := map[string]bool{}
	for _, s := range shards {
		if seen[s.Name] {
			errs = append(errs, fmt.Errorf("config: shard %q comes twice, expected names of their own", s.Name))
		}
		seen[s.Name] = true
		if s.Name != "" {
			s.Config.Logger = s.Config.Logger.With().Str("shard", s.Name).Logger()
		}
		d, err := New(s.Config)
		if err != nil {
			errs = append(errs, s.wrap(err))
			continue
		}
		g.daemons = append(g.daemons, d)
	}
	if err := errors.Join(errs...); err != nil {
		for _, d := range g.daemons {
			d.abort()
		}
		return nil, err
	}
	var configs []Config
	for _, d := range g.daemons {
		configs, d.doubts = append(configs, d.cfg), nil
	}
	g.daemons[0].doubts = doubts(configs...) // once for all: they may share a registry
	return g, nil
}

func (s Shard) wrap(err error) error {
	if s.Name == "" {
		return err
	}
	return fmt.Errorf("shard %s: %w", s.Name, err)
}

// Start starts all daemons side by side. When one cannot start, those that could
// are stopped again, and the error is its.
func (g *Group) Start(ctx context.Context) error {
	errs := make([]error, len(g.daemons))
	var all sync.WaitGroup
	for i, d := range g.daemons {
		all.Go(func() {
			if err := d.Start(ctx); err != nil {
				errs[i] = g.shards[i].wrap(err)
			}
		})
	}
	all.Wait()
	failed := errors.Join(errs...)
	for i, d := range g.daemons {
		if failed != nil && errs[i] == nil {
			d.beginStop(d.cfg.Timeout)
		}
	}
	go g.watch()
	if failed != nil {
		<-g.ended
	}
	return failed
}

// watch stops all when one has ended.
func (g *Group) watch() {
	var all sync.WaitGroup
	for _, d := range g.daemons {
		all.Go(func() {
			<-d.ended
			g.beginStop()
		})
	}
	all.Wait()
	close(g.ended)
}

func (g *Group) beginStop() {
	for _, d := range g.daemons {
		d.beginStop(d.cfg.Timeout)
	}
}

// Quiet is Daemon.Quiet for all.
func (g *Group) Quiet() {
	for _, d := range g.daemons {
		d.Quiet()
	}
}

// Stop is Daemon.Stop for all at once: each has its whole Timeout and Grace. The
// reports are in the order of the shards.
func (g *Group) Stop(ctx context.Context) ([]DrainReport, error) {
	g.beginStop()
	select {
	case <-g.ended:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	reports := make([]DrainReport, len(g.daemons))
	for i, d := range g.daemons {
		reports[i] = d.Report()
	}
	return reports, nil
}

// Daemons are the daemons in the order of the shards.
func (g *Group) Daemons() []*Daemon { return append([]*Daemon(nil), g.daemons...) }

// Done is closed when all daemons have ended.
func (g *Group) Done() <-chan struct{} { return g.ended }

// Err joins the reasons for which daemons stopped by themselves; nil after an
// ordinary stop.
func (g *Group) Err() error {
	var errs []error
	for i, d := range g.daemons {
		if err := d.Err(); err != nil {
			errs = append(errs, g.shards[i].wrap(err))
		}
	}
	return errors.Join(errs...)
}

// signal obeys a signal of the operating system.
func (g *Group) signal(s os.Signal) {
	for i, d := range g.daemons {
		if s == osproc.Dump && i > 0 { // the stacks are the process's
			d.env.Log.Warn().Str("tree", d.Tree().String()).Msg("dump")
			continue
		}
		d.signal(s)
	}
}
