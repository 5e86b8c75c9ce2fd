package rescue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/jitter"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/redisconn"
)

const (
	LockTime      = 10 * time.Second // of one round, extended at every step
	tombstoneTime = 24 * time.Hour
	maxBatch      = 1000             // jobs that one call puts back
	LookLimit     = 100              // how many dead owners are listed at once
	AllTime       = 10 * time.Minute // between two looks for owners that the expiries lack
	LackTime      = time.Minute      // the same when it has fewer than there are
	FirstDelay    = 15 * time.Second // of an owner that cannot be rescued; doubled up to
	LastDelay     = 5 * time.Minute
)

// Rescuer puts what dead processes had in progress back into their queues, to the end
// that is popped next, bytes unchanged, or where its policy sends it. A dead owner is one
// whose lease is over. Every step is harmless beside another rescuer's; a lock lets one
// work at a time. A round waits for the one before it; all methods are safe for concurrent
// use.
type Rescuer struct {
	cfg     Config
	rdb     redis.UniversalClient
	cluster bool
	common  keys.Common // but for the leases
	own     string      // what the ids of this process begin with, or ""
	rand    *rand.Rand
	pause   time.Duration
	looked  time.Time // for owners that the expiries lack
	delays  map[string]time.Duration
	said    map[string]bool // of layouts that are not known
	search  search          // for lists that no index names
	busy    chan struct{}   // holds one while a round is under way, which all of the above belong to
}

// New makes a Rescuer; it does not touch Redis.
func New(cfg Config) (*Rescuer, error) {
	if cfg.Redis == nil {
		return nil, errors.New("rescuer: Redis is nil, expected a client")
	}
	if cfg.Lease < 0 || cfg.Window < 0 {
		return nil, fmt.Errorf("rescuer: lease %v and window %v, expected 0 or more", cfg.Lease, cfg.Window)
	}
	cfg.Lease, cfg.Window = cmp.Or(cfg.Lease, limits.Lease), cmp.Or(cfg.Window, limits.Window)
	r := &Rescuer{
		cfg: cfg, rdb: cfg.Redis, pause: min(limits.RescueEvery, cfg.Lease/2),
		delays: make(map[string]time.Duration), said: make(map[string]bool), busy: make(chan struct{}, 1),
	}
	r.cluster = redisconn.OnCluster(cfg.Redis)
	r.common = keys.CommonOf("", r.cluster)
	r.rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	if cfg.Identity != "" {
		r.own = cfg.Identity + "#"
		r.rand = jitter.Rand(r.own, "rescue")
	}
	r.rand = cmp.Or(cfg.Rand, r.rand)
	return r, nil
}

// Rescue makes one round. After an error, too, what could be done was done.
func (r *Rescuer) Rescue(ctx context.Context) (Round, error) {
	var done Round
	if err := r.enter(ctx); err != nil {
		return done, err
	}
	defer r.leave()
	foreign := len(r.said)
	dead, next, err := r.look(ctx)
	if err == nil && len(dead) == 0 { // nobody waits for it
		r.lookForLists(ctx)
	}
	some := len(dead) > 0 || len(r.search.found) > 0
	var wait time.Duration
	if err == nil && some && r.cfg.Grace != nil {
		wait, err = r.cfg.Grace(ctx)
	}
	switch {
	case wait > 0:
		next = wait
	case err == nil && some:
		err = r.locked(ctx, func(token string) error {
			named, err := r.name(ctx, r.search.found)
			r.search.found = nil
			return errors.Join(err, r.round(ctx, append(dead, named...), token, &done))
		})
		if errors.Is(err, ErrBusy) {
			err = nil // somebody else does it
		}
	}
	done.Next = r.pause/2 + r.jitter(r.pause/2)
	if next > 0 || next == 0 && (done.Fetchers > 0 || len(r.said) > foreign) {
		done.Next = min(done.Next, next+time.Millisecond+r.jitter(r.pause/50))
	}
	done.Next = max(done.Next, time.Millisecond)
	if err != nil {
		return done, fmt.Errorf("rescue: %w", err)
	}
	return done, nil
}

// RescueOnly makes a round for these fetchers, whatever the index says of them. Those
// whose lease runs are left alone. It is for operators; it returns ErrBusy where Rescue
// waits for its next turn.
func (r *Rescuer) RescueOnly(ctx context.Context, ids ...string) (Round, error) {
	if err := r.enter(ctx); err != nil {
		return Round{}, err
	}
	defer r.leave()
	var done Round
	err := r.locked(ctx, func(token string) error { return r.round(ctx, ids, token, &done) })
	if err != nil {
		return done, fmt.Errorf("rescue: %w", err)
	}
	return done, nil
}

// locked calls do under the lock.
func (r *Rescuer) locked(ctx context.Context, do func(token string) error) error {
	token := r.own + strconv.FormatUint(r.rand.Uint64(), 16)
	if err := r.extend(ctx, token); errors.Is(err, errLock) {
		return ErrBusy
	} else if err != nil {
		return err
	}
	err := do(token)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if held, err := r.rdb.Get(ctx, keys.Rescue).Result(); err == nil && held == token {
		r.rdb.Del(ctx, keys.Rescue) // else it ends by itself
	}
	return err
}

// enter waits for the end of the round before: an actor that was restarted may begin one
// while that of its predecessor is still under way.
func (r *Rescuer) enter(ctx context.Context) error {
	select {
	case r.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("rescue: %w", ctx.Err())
	}
}

func (r *Rescuer) leave() { <-r.busy }

func (r *Rescuer) jitter(d time.Duration) time.Duration {
	return time.Duration(r.rand.Int64N(max(1, int64(d))))
}

// look lists the owners whose entry in the expiries is over, now and then those that the expiries
// lacks, and tells how soon the next one is due, -1 for none.
func (r *Rescuer) look(ctx context.Context) (dead []string, next time.Duration, err error) {
	lacks := false
	for passed, page := 0, LookLimit; page == LookLimit && len(dead) < LookLimit; passed += page {
		text, err := lookScript.Run(ctx, r.rdb, []string{r.common.Expiries, r.common.Owners}, LookLimit, passed).StringSlice()
		if err != nil {
			return nil, -1, err
		}
		next, page = -1, len(text)-3
		for _, id := range text[3:] {
			if !r.said[id] { // nobody here can rescue it
				dead = append(dead, id)
			}
		}
		now, _ := strconv.ParseFloat(text[0], 64)
		if end, err := strconv.ParseFloat(text[1], 64); err == nil {
			next = time.Duration((end - now) * float64(time.Millisecond))
		} else if page == LookLimit {
			next = 0 // there may be more
		}
		lack, _ := strconv.Atoi(text[2])
		lacks = lack > 0
	}
	if since := time.Since(r.looked); r.looked.IsZero() || since > AllTime || lacks && since > LackTime {
		lost, err := r.unlisted(ctx)
		if err != nil {
			return dead, next, err
		}
		if r.looked.IsZero() {
			r.former(ctx)
		}
		r.looked = time.Now()
		dead = append(dead, lost...)
	}
	return dead, next, nil
}

// former reports what a version before this layout has left: nothing reads it any more.
func (r *Rescuer) former(ctx context.Context) {
	registry := keys.OldRegistries(r.cluster)[0]
	if n, err := r.rdb.HLen(ctx, registry).Result(); err == nil && n > 0 {
		r.cfg.Logger.Warn().Str("key", registry).Int64("fetchers", n).
			Msg("an older version of troupe has left this; what its processes had in progress only that version puts back")
	}
}

// round deals with all that are dead.
func (r *Rescuer) round(ctx context.Context, dead []string, token string, done *Round) error {
	var failed []error
	for _, id := range dead {
		if due, err := r.due(ctx, id); err != nil || !due {
			failed = append(failed, err)
			continue
		}
		from, err := r.rescue(ctx, id, token)
		if from.ID != "" {
			done.Details = append(done.Details, from)
			if from.Done {
				done.Fetchers++
			}
			for _, n := range from.Queues {
				done.Units += n
			}
		}
		if err == nil {
			delete(r.delays, id)
			continue
		}
		if errors.Is(err, errLayout) {
			continue
		}
		failed = append(failed, fmt.Errorf("fetcher %s: %w", id, err))
		if !redisconn.IsReply(err) && (!r.cluster || ctx.Err() != nil) {
			break // it would be the same with the others
		}
		r.delay(ctx, id)
	}
	return errors.Join(failed...)
}

// delay puts off the next try at an owner that cannot be rescued, so that not every
// process wakes up for it at each beat.
func (r *Rescuer) delay(ctx context.Context, id string) {
	d := min(LastDelay, max(FirstDelay, 2*r.delays[id]))
	d = min(d, max(r.cfg.Lease/2, time.Millisecond)*20) // a short lease is in a hurry
	r.delays[id] = d
	_ = r.postpone(ctx, id, d)
}

func (r *Rescuer) postpone(ctx context.Context, id string, d time.Duration) error {
	return postponeScript.Run(ctx, r.rdb, []string{r.common.Expiries}, id, max(1, d.Milliseconds())).Err()
}

// due tells whether an owner is to be rescued by us. One of this process is not, unless it
// has taken a new id: after a pause of the whole process it goes on.
func (r *Rescuer) due(ctx context.Context, id string) (bool, error) {
	if r.own == "" || !strings.HasPrefix(id, r.own) {
		return true, nil
	}
	dot := strings.LastIndexByte(id, '.') + 1
	n, _ := strconv.ParseUint(id[dot:], 10, 64)
	next := id[:dot] + strconv.FormatUint(n+1, 10)
	err := r.rdb.ZScore(ctx, r.common.Expiries, next).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}
