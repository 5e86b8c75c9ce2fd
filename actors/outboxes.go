package actors

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors/internal/show"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/tree"
)

// Outbox is a relay of package outbox that runs in the tree, as the actor launcher/outbox-NAME. It is restarted as the other
// actors are, works on at quiet, since it takes no jobs, and ends when the stop begins: another process has its place at once.
type Outbox struct {
	Name  string // letters, digits, _ . -; "" means main
	Relay Relay  // a *outbox.Relay
	// Ready has the daemon not be Ready while the relay has been unable to work for 5 s or longer: its database is away, say.
	Ready bool
}

// Relay brings rows of a database to Redis: a *outbox.Relay does. Run returns when ctx ends, and may be called again; a panic crashes
// the actor. Stats may be called at any time.
type Relay interface {
	Run(ctx context.Context) error
	Stats() RelayStats
}

// RelayStats tells how a relay is, as outbox.RelayStats does.
//
//	State   string // leads, waits, no_database, no_tables or no_redis; "" while it does not run
//	Since   time.Time
//	Error   string // the fault that it waits out
//	Batches uint64 // it has pushed
//	Pushed  uint64 // jobs
//	Bad     uint64 // rows that are no jobs, which it has put into troupe_outbox_bad
//	// What follows is counted by the relay that works.
//	Waiting int64     // rows that are not pushed
//	Oldest  time.Time // when the oldest of them was written
//	Refused int64     // rows of troupe_outbox_bad
//	Reason  string    // of the last of them
type RelayStats = tree.Relay

// outboxPrefix begins the names of these actors.
const outboxPrefix = "outbox-"

var outboxName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

func (o *Outbox) actor() string { return outboxPrefix + o.Name }
func (o *Outbox) path() string  { return launcherName + "/" + o.actor() }

// checkOutboxes finds the faults of Outboxes.
func (c *Config) checkOutboxes() (errs []error) {
	seen := map[string]bool{}
	for i, o := range c.Outboxes {
		name := o.Name
		if name == "" {
			name = "main"
		}
		switch {
		case !outboxName.MatchString(name):
			errs = append(errs, fmt.Errorf("config: Outboxes[%d].Name is %q, expected 1 to 100 letters, digits and _ . -", i, name))
		case seen[name]:
			errs = append(errs, fmt.Errorf("config: Outboxes[%d].Name is %q, expected a name that no other outbox has", i, name))
		}
		seen[name] = true
		if o.Relay == nil {
			errs = append(errs, fmt.Errorf("config: Outboxes[%d].Relay is nil, expected a *outbox.Relay", i))
		}
	}
	return errs
}

// relaying is the actor of an outbox. One loop runs the relay, and one tells what becomes of it.
type relaying struct {
	*supervised.Loops
	d  *Daemon
	of *Outbox

	mu  sync.Mutex
	end context.CancelFunc // of the run
}

func newRelaying(d *Daemon, o *Outbox) *relaying {
	r := &relaying{d: d, of: o, end: func() {}}
	r.Loops = supervised.NewLoops(d.env.Settling, d.env.System, o.path(), r.run, r.watch)
	return r
}

func (r *relaying) Receive(ctx actor.Context) {
	r.Loops.Receive(ctx)
	if _, ok := ctx.Message().(stop); ok {
		ctx.Stop(ctx.Self())
	}
}

// Paused is called when the actor is held or suspended: another process is to work then.
func (r *relaying) Paused() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end()
}

func (r *relaying) run(l *supervised.Loop) {
	for {
		ctx, end := context.WithCancel(l.Context)
		r.mu.Lock()
		r.end = end
		r.mu.Unlock()
		if r.d.env.System.Mailbox(r.of.path()).Keeps() { // since the loop was told to go on
			end()
		}
		err := func() error {
			defer end()
			return r.of.Relay.Run(ctx)
		}()
		if err != nil && l.Context.Err() == nil {
			r.d.env.Log.Error().Err(err).Str("actor", r.of.path()).Msg("the relay of an outbox has ended; it is run again")
		}
		if !l.Pause(time.Second) {
			return
		}
	}
}

// watch tells each change of the relay's state once, and of rows that can be no job.
func (r *relaying) watch(l *supervised.Loop) {
	before := RelayStats{}
	for l.Pause(time.Second) {
		s := r.of.Relay.Stats()
		if s.Bad > before.Bad {
			r.d.env.Log.Warn().Str("actor", r.of.path()).Uint64("rows", s.Bad-before.Bad).Str("reason", s.Reason).
				Msg("rows of the outbox can be no jobs: they are in troupe_outbox_bad")
		}
		if s.State != "" && (s.State != before.State || !s.Since.Equal(before.Since)) {
			r.changed(s)
		}
		before = s
	}
}

func (r *relaying) changed(s RelayStats) {
	e := event.OutboxChanged{At: s.Since, Outbox: r.of.Name, State: s.State}
	level := zerolog.InfoLevel
	if s.Error != "" {
		e.Err, level = errors.New(s.Error), zerolog.ErrorLevel
	}
	r.d.env.Log.WithLevel(level).Err(e.Err).Str("actor", r.of.path()).Str("state", s.State).Msg(relayTexts[s.State])
	r.d.events.publish(e)
}

var relayTexts = map[string]string{
	tree.RelayLeads: "this relay brings the rows of the outbox to Redis", tree.RelayWaits: "another relay of the outbox works",
	tree.RelayNoDatabase: "the database of the outbox is away, or refuses", tree.RelayNoTables: "the tables of the outbox are not those of this version",
	tree.RelayNoRedis: "Redis takes no jobs of the outbox",
}

// isOutbox tells whether the actor at path is one of an outbox.
func isOutbox(path string) bool { return strings.HasPrefix(path, launcherName+"/"+outboxPrefix) }

// shownOutboxes are the outboxes as package show shows them.
func (d *Daemon) shownOutboxes() (all []show.Outbox) {
	for i := range d.cfg.Outboxes {
		o := &d.cfg.Outboxes[i]
		all = append(all, show.Outbox{Name: o.Name, Path: o.path(), Ready: o.Ready, Relay: o.Relay.Stats()})
	}
	return all
}
