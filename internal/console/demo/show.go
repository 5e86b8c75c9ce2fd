package demo

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/console/screen"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/osproc"
)

const (
	// batchConcurrency is one processor for the unresponsive job and one for the others.
	batchConcurrency = 2
	grace            = time.Second
	rateWindow       = 3 * time.Second // over which a rate is averaged
)

// show is one run of the demo.
type show struct {
	o        options
	log      zerolog.Logger
	display  display
	store    *store
	measures *measures
	census   *census
	players  *players
	daemon   *actors.Daemon
	meter    screen.Meter
	up       time.Time // when the tree ran

	stopPushing context.CancelFunc
	pushing     context.Context
}

// newShow builds everything and starts nothing but an embedded Redis. The show
// must be run, which ends it.
func newShow(o options, d display) (*show, error) {
	st, err := openStore(o.redis)
	if err != nil {
		return nil, err
	}
	s := &show{o: o, display: d, store: st, measures: &measures{began: time.Now()}, meter: screen.Meter{Window: rateWindow}}
	s.log = zerolog.New(s.display.logs()).Level(zerolog.InfoLevel).With().Timestamp().Logger()
	s.census = &census{rdb: st.client}
	s.players = &players{measures: s.measures, run: job.NewID(), curtain: make(chan struct{})}
	s.pushing, s.stopPushing = context.WithCancel(context.Background())
	if s.daemon, err = actors.New(s.config()); err != nil {
		st.close()
		return nil, err
	}
	return s, nil
}

func (s *show) config() actors.Config {
	return actors.Config{
		Redis: s.store.client, Registry: s.players.registry(), Logger: s.log, Tag: "demo",
		Timeout: s.o.timeout, Grace: grace,
		DeadMax: s.store.deadMax, DeadTimeout: s.store.deadTimeout,
		Capsules: []actors.Capsule{
			{Name: "default", Concurrency: s.o.concurrency, Queues: fetch.Weighted{queueCritical: 3, queueDefault: 1}},
			{Name: "batch", Concurrency: batchConcurrency, Queues: fetch.Strict{queueBatch}},
		},
		Middleware: []troupe.Middleware{s.measures.measure},
		On: actors.Events{
			// also when Sidekiq's UI asks for it, or the tree gives up
			Quiet:    []func(context.Context){func(context.Context) { s.stopPushing() }},
			Shutdown: []func(context.Context){func(context.Context) { s.measures.stop.Store(time.Now().UnixNano()) }},
		},
	}
}

// run starts the daemon, plays until it is time to end, and stops in good order.
// The error is that of the start, or tells that the tree gave up.
func (s *show) run(ctx context.Context, signals <-chan os.Signal) error {
	defer s.store.close()
	defer s.stopPushing()
	defer close(s.players.curtain)
	s.display.begin(s.intro())
	if goOn, err := s.start(ctx, signals); !goOn {
		return err
	}
	if !s.store.embedded() {
		s.log.Warn().Strs("queues", queues).Msg("this demo pushes jobs into these queues of " + s.store.place() +
			" and, like any Sidekiq process, moves what is due in its schedule and retry sets")
	}
	looking, stopLooking := context.WithCancel(context.Background())
	defer stopLooking()
	s.display.open(s)
	defer s.display.close() // also of a panic
	var work sync.WaitGroup
	producer := &producer{
		client: client.New(s.store.client), measures: s.measures, census: s.census, log: s.log, run: s.players.run, rate: s.o.rate,
	}
	work.Go(func() { s.guard(func() { producer.work(s.pushing) }) })
	work.Go(func() { s.guard(func() { s.census.work(looking) }) })
	work.Go(func() { s.guard(func() { s.watch(looking) }) })

	s.play(ctx, signals)
	length, crashes := time.Since(s.up), restarts(s.daemon.Tree())
	s.stopPushing()
	report, err := s.daemon.Stop(context.Background()) // a second signal changes nothing
	stopLooking()
	work.Wait()
	s.display.close()
	if err != nil {
		return err
	}
	_, lost := s.census.take(context.Background(), lastTimeout)
	s.display.finish(finale{
		last: s.snapshot(time.Now()), length: length, report: report, restarts: crashes,
		embedded: s.store.embedded(), counted: lost == nil,
	})
	if err := s.daemon.Err(); err != nil {
		return &exitError{fmt.Errorf("the supervision tree gave up: %w", err), actors.ExitEscalation}
	}
	return nil
}

// intro says what there is to see.
func (s *show) intro() []string {
	return []string{
		fmt.Sprintf("A daemon with its supervision tree, in this process, on %s.", s.store.place()),
		fmt.Sprintf("It gets %d jobs a second: most are quick, some are slow, some are for later, some fail once or twice.", s.o.rate),
		"Every 5 s a job panics: one processor crashes and is restarted, and the job is retried once, then dead.",
		"One job ignores its cancelled context, another runs for 20 s: the stop does not wait for them.",
		"Ctrl-C stops in good order and prints what became of the jobs that were running.",
	}
}

// start boots the daemon; false when the demo ends here: with an error, or
// without one if it was told to stop meanwhile.
func (s *show) start(ctx context.Context, signals <-chan os.Signal) (bool, error) {
	boot, cancel := context.WithCancel(ctx)
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- s.daemon.Start(boot) }()
	interrupted := false
	for {
		select {
		case sig := <-signals:
			if sig != osproc.Quiet {
				interrupted = true
				cancel()
			}
		case err := <-started:
			s.up = time.Now()
			switch {
			case err == nil && interrupted:
				_, err = s.daemon.Stop(context.Background())
				return false, err
			case err != nil && (interrupted || ctx.Err() != nil):
				return false, nil
			}
			return err == nil, err
		}
	}
}

// play lasts until somebody wants the demo to end: a signal, the end of ctx, of
// --for, or of the daemon itself.
func (s *show) play(ctx context.Context, signals <-chan os.Signal) {
	var end <-chan time.Time
	if s.o.length > 0 {
		t := time.NewTimer(s.o.length)
		defer t.Stop()
		end = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case <-s.daemon.Done():
			return
		case sig := <-signals:
			if sig != osproc.Quiet {
				return
			}
			s.daemon.Quiet()
		}
	}
}

// guard does work in a goroutine of its own. A panic gives the terminal back before it ends the process.
func (s *show) guard(work func()) {
	ended := false
	defer func() {
		if !ended {
			s.display.close()
		}
	}()
	work()
	ended = true
}

// watch shows snapshots until ctx ends.
func (s *show) watch(ctx context.Context) {
	t := time.NewTicker(s.display.every())
	defer t.Stop()
	for {
		s.display.show(s.snapshot(time.Now()))
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}
