package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/jitter"
	"github.com/troupehq/troupe/internal/keys"
)

const (
	// maxPause is the longest pause between two looks for dead fetchers.
	maxPause = 15 * time.Second

	// lockTime is the life of the lock of the one rescuer, extended at every step.
	lockTime = 10 * time.Second

	// tombstoneTime is how long a fenced fetcher is remembered: a process that
	// was paused for longer takes itself for forgotten, not for fenced.
	tombstoneTime = 24 * time.Hour

	// lookLimit is how many dead fetchers are listed at once.
	lookLimit = 100
)

// DefaultWindow is how long a recovery counts for a rescuer that was not told.
const DefaultWindow = 72 * time.Hour

// RescuerConfig is what a Rescuer is made of.
type RescuerConfig struct {
	Redis redis.UniversalClient
	Lease time.Duration // of the fleet's fetchers, sets the pace; 0 means DefaultLease

	// Identity of this process. Its own fetchers are passed over: after a pause
	// of the whole process they resume and keep their units, unless another
	// process was faster. Not so incarnations that they have given up. "" rescues
	// whoever is due.
	Identity string

	// Judge decides where each unit goes; nil puts all of them back as they are
	// and counts nothing.
	Judge  Judge
	Window time.Duration // how long a recovery counts; 0 means DefaultWindow

	Logger zerolog.Logger // debug lines, and what Redis has lost: what was done is in Rescued
	Rand   *rand.Rand     // for tests; nil means one that Identity and the time make
}

// Rescued is what one round of a Rescuer did.
type Rescued struct {
	Fetchers int           // dead fetchers of which nothing is left in progress
	Units    int           // units that are no longer in progress
	Laps     int           // jobs put back out of laps, where nobody had taken them
	Details  []RescuedFrom // per fetcher that was found dead
	Next     time.Duration // when to look again; always positive, jittered
}

// RescuedFrom is what was done about one dead fetcher.
type RescuedFrom struct {
	ID     string         // IDENTITY#CAPSULE.INCARNATION
	Queues map[string]int // name of the queue they came from -> units put back; without empty ones
	Judged []Judged       // those of them that went elsewhere
	Done   bool           // false: the next round goes on with it
}

// Rescuer puts what dead fetchers had in progress back into their queues, to
// the end that is popped next, bytes unchanged. Any number of processes may
// run one: a lock lets one work at a time, and scripts make two at once
// harmless. A dead fetcher is one whose lease has run out by Redis's clock. A
// round costs a look at an index, plus work per dead fetcher, however many live.
//
// It is safe for concurrent use.
type Rescuer struct {
	rdb    redis.UniversalClient
	reg    registry
	own    string // what the ids of this process's fetchers begin with, or ""
	pause  time.Duration
	judge  Judge
	window time.Duration
	log    zerolog.Logger
	rand   *rand.Rand
	page   page // of what the judge reads
}

// NewRescuer makes a Rescuer; it does not touch Redis.
func NewRescuer(cfg RescuerConfig) (*Rescuer, error) {
	if cfg.Redis == nil {
		return nil, errors.New("rescuer: Redis is nil, expected a client")
	}
	if cfg.Lease < 0 {
		return nil, fmt.Errorf("rescuer: lease %v, expected 0 or more", cfg.Lease)
	}
	if cfg.Lease == 0 {
		cfg.Lease = DefaultLease
	}
	if cfg.Window < 0 {
		return nil, fmt.Errorf("rescuer: window %v, expected 0 or more", cfg.Window)
	}
	if cfg.Window == 0 {
		cfg.Window = DefaultWindow
	}
	r := &Rescuer{
		rdb: cfg.Redis, reg: registryOf(cfg.Redis), pause: min(maxPause, cfg.Lease/2), log: cfg.Logger, rand: cfg.Rand,
		judge: cfg.Judge, window: cfg.Window,
	}
	if cfg.Identity != "" {
		r.own = cfg.Identity + "#"
	}
	return r, nil
}

// Rescue makes one round. It is due at start and then after every Rescued.Next;
// after an error, too, since a round does what it can: the error joins what
// went wrong with single fetchers, and Rescued tells what went well.
func (r *Rescuer) Rescue(ctx context.Context) (Rescued, error) {
	var done Rescued
	dead, nearest, laps, err := r.look(ctx, 0)
	var lapped error
	if laps {
		done.Laps, lapped = r.unlap(ctx)
	}
	if err == nil && len(dead) > 0 {
		err = r.round(ctx, dead, &done)
		var next error
		if _, nearest, _, next = r.look(ctx, 0); err == nil {
			err = next
		}
	}
	err = errors.Join(err, lapped)
	done.Next = r.next(nearest)
	if err != nil {
		return done, fmt.Errorf("rescue: %w", err)
	}
	return done, nil
}

// next is half to all of the pause, or just after the nearest lease ends: most
// leases are renewed long before, so that this wakes nobody in a healthy fleet.
func (r *Rescuer) next(nearest time.Duration) time.Duration {
	next := r.pause/2 + r.jitter(r.pause/2)
	if nearest >= 0 {
		next = min(next, nearest+time.Millisecond+r.jitter(r.pause/50))
	}
	return max(next, time.Millisecond)
}

func (r *Rescuer) jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	random := r.rand
	if random == nil {
		random = r.draw("pause")
	}
	return time.Duration(random.Int64N(int64(d)))
}

// draw returns the generator for one use; a rescuer without an identity has
// nothing but the process-wide one to differ by.
func (r *Rescuer) draw(what string) *rand.Rand {
	if r.own == "" {
		return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	return jitter.Rand(r.own, what)
}

// candidate is a fetcher whose lease should be over; names is the JSON array of
// its queues, "" when it is not registered.
type candidate struct{ id, names string }

// look lists candidates and the time to the end of the nearest lease (-1: none),
// and tells whether there may be laps.
func (r *Rescuer) look(ctx context.Context, skip int) (_ []candidate, _ time.Duration, laps bool, _ error) {
	names := []string{r.reg.leases, r.reg.procs}
	if !r.reg.cluster {
		names = append(names, keys.Laps)
	}
	reply, err := lookScript.Run(ctx, r.rdb, names, skip, lookLimit).StringSlice()
	if err != nil {
		return nil, -1, false, err
	}
	nearest := time.Duration(-1)
	if reply[1] != "" {
		expiry, err := strconv.ParseFloat(reply[1], 64)
		if err != nil {
			return nil, -1, false, fmt.Errorf("index of leases: %w", err)
		}
		nearest = time.Duration(expiry-float64(atoi(reply[0]))) * time.Millisecond
	}
	var dead []candidate
	laps = reply[2] != ""
	for reply = reply[3:]; len(reply) >= 2; reply = reply[2:] {
		dead = append(dead, candidate{id: reply[0], names: reply[1]})
	}
	return dead, nearest, laps, nil
}

// unlap puts back what is in laps. Jobs are there for a moment only, unless who
// got them has died: nothing tells whose they are, and it does no harm to a
// fetcher that is about to take one, which finds it in the queue.
func (r *Rescuer) unlap(ctx context.Context) (n int, err error) {
	names, err := r.rdb.SMembers(ctx, keys.Laps).Result()
	if err != nil {
		return 0, fmt.Errorf("laps: %w", err)
	}
	slices.Sort(names)
	for page := range slices.Chunk(names, lookLimit) {
		var pairs []string
		for _, name := range page {
			pairs = append(pairs, keys.Queue(name), keys.Lap(name))
		}
		back, next := unlap(ctx, r.rdb, pairs)
		if n += back; next != nil {
			err = errors.Join(err, fmt.Errorf("laps: %w", next))
		}
	}
	return n, err
}

// round deals with all that are dead, alone if it gets the lock. Those that
// could not be finished stay in the index; it passes over them.
func (r *Rescuer) round(ctx context.Context, dead []candidate, done *Rescued) error {
	token := fmt.Sprintf("%s%016x", r.own, r.draw("lock").Uint64())
	if won, err := r.lock(ctx, token, lockTime, "1"); err != nil || !won {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = r.lock(ctx, token, 0, "") // else it ends by itself
	}()
	var failed []error
	passed := 0
	for len(dead) > 0 {
		for _, c := range dead {
			due, err := r.due(ctx, c)
			if err == nil && !due {
				passed++
				continue
			}
			var from RescuedFrom
			if due {
				from, err = r.rescue(ctx, c, token)
			}
			if from.ID != "" {
				done.add(from)
			}
			if err == nil {
				continue
			}
			failed = append(failed, fmt.Errorf("fetcher %s: %w", c.id, err))
			if !isReply(err) || errors.Is(err, errLock) {
				return errors.Join(failed...) // it would be the same with the others
			}
		}
		var err error
		if dead, _, _, err = r.look(ctx, passed+len(failed)); err != nil {
			return errors.Join(append(failed, err)...)
		}
	}
	return errors.Join(failed...)
}

// due tells whether c is to be rescued by us. A fetcher of this process is not,
// unless a rescue of it has begun or its next incarnation is or was registered: it
// gives one up before it registers the next, and not always because of a rescue.
func (r *Rescuer) due(ctx context.Context, c candidate) (bool, error) {
	if r.own == "" || c.names == "" || !strings.HasPrefix(c.id, r.own) {
		return true, nil
	}
	dot := strings.LastIndexByte(c.id, '.') + 1
	n, _ := strconv.ParseUint(c.id[dot:], 10, 64) // ours are numbered
	next := c.id[:dot] + strconv.FormatUint(n+1, 10)
	if registered, err := r.rdb.HExists(ctx, r.reg.procs, next).Result(); err != nil || registered {
		return registered, err
	}
	fenced, err := r.rdb.Exists(ctx, r.reg.fenced(next)).Result()
	return fenced > 0, err
}

func (d *Rescued) add(from RescuedFrom) {
	d.Details = append(d.Details, from)
	if from.Done {
		d.Fetchers++
	}
	for _, n := range from.Queues {
		d.Units += n
	}
}

// rescue deals with one candidate: fence first, then batch by batch, then out
// of the index. Whoever comes after us can go on at any point. The zero
// RescuedFrom means that it lives, or has left in good order.
func (r *Rescuer) rescue(ctx context.Context, c candidate, token string) (RescuedFrom, error) {
	if r.reg.cluster {
		return r.rescueOnCluster(ctx, c, token)
	}
	names, err := r.queues(ctx, c)
	if err != nil {
		return RescuedFrom{}, err
	}
	lease, fenced := keys.Lease(c.id), keys.Fenced(c.id)
	wips := make([]string, 2*len(names)) // of the queues, then of their suspects
	for i, name := range names {
		wips[i], wips[len(names)+i] = keys.WIP(name, c.id), keys.WIP(keys.Suspects(name), c.id)
	}
	counts, err := fenceScript.Run(ctx, r.rdb, append([]string{keys.Procs, keys.Leases, lease, fenced}, wips...),
		c.id, tombstoneTime.Milliseconds()).Int64Slice()
	if err != nil {
		return RescuedFrom{}, err
	}
	if len(names) == 0 || counts[0] == -1 {
		return RescuedFrom{}, nil
	}
	r.log.Debug().Str("fetcher", c.id).Msg("its lease is over; putting back what it had in progress")

	from := RescuedFrom{ID: c.id, Queues: make(map[string]int)}
	var failed []error
	for i, count := range counts {
		if count == 0 {
			continue
		}
		name, suspect := names[i%len(names)], i >= len(names)
		j := &judged{
			r: r, id: c.id, queue: name, wip: wips[i], fenced: fenced, set: suspect, cause: r.causeOf(c.id),
			counts: r.counts(name),
		}
		n, err := r.putBack(ctx, j, token, &from)
		if n > 0 {
			from.Queues[name] += n
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("queue %s: %w", name, err))
		}
	}
	if len(failed) > 0 {
		return from, errors.Join(failed...)
	}
	left, err := forgetScript.Run(ctx, r.rdb, append([]string{keys.Leases}, wips...), c.id).Int()
	if err == nil && left > 0 {
		err = fmt.Errorf("%d keys in progress are not empty", left)
	}
	from.Done = err == nil
	return from, err
}

// queues are the queues that the candidate took from; after a rescue that broke
// off, its tombstone tells them. None: it left, and only the index remembers it.
func (r *Rescuer) queues(ctx context.Context, c candidate) ([]string, error) {
	listed := c.names
	if listed == "" {
		var err error
		listed, err = r.rdb.Get(ctx, r.reg.fenced(c.id)).Result()
		if errors.Is(err, redis.Nil) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	var names []string
	if err := json.Unmarshal([]byte(listed), &names); err != nil {
		return nil, fmt.Errorf("queue names %q in the registry: %w", listed, err)
	}
	return names, nil
}

// putBack empties one hash, the newest units first, so that the oldest is the
// next to be popped wherever it breaks off. Parcels that cannot be opened stay,
// and are an error when all else is done.
func (r *Rescuer) putBack(ctx context.Context, j *judged, token string, from *RescuedFrom) (int, error) {
	sick, err := j.open(ctx)
	if err != nil {
		return 0, err
	}
	held, err := r.rdb.HKeys(ctx, j.wip).Result()
	if err != nil {
		return 0, err
	}
	held = slices.DeleteFunc(held, func(field string) bool { return field == fenceField || sick[field] != "" })
	slices.SortFunc(held, func(a, b string) int { return compareReceipts(b, a) })
	moved := 0
	for len(held) > 0 {
		var n int
		batch := held[:min(len(held), maxBatch)]
		if r.judge == nil {
			n, err = j.back(ctx, batch)
		} else if batch, err = j.clip(ctx, held[:min(len(held), judgeBatch)]); err == nil {
			n, err = j.batch(ctx, batch, from)
		}
		held, moved = held[len(batch):], moved+n
		if err != nil {
			return moved, err
		}
		locked, err := r.lock(ctx, token, lockTime, "")
		if err == nil && !locked {
			err = errLock
		}
		if err != nil {
			return moved, err
		}
	}
	if len(sick) > 0 {
		first := slices.Min(slices.Collect(maps.Keys(sick)))
		return moved, &refusal{fmt.Sprintf("parcels that cannot be opened: %d, the first %s: %s", len(sick), first, sick[first])}
	}
	return moved, nil
}

// openAtOnce is how many parcels one call of a rescuer opens.
const openAtOnce = 30

// open gives each unit of the hash a field of its own, and tells of which parcels it
// could not, and why. There are no parcels on a cluster.
func (j *judged) open(ctx context.Context) (sick map[string]string, err error) {
	for left := 1; left > 0 && !j.r.reg.cluster; {
		reply, err := openScript.Run(ctx, j.r.rdb, []string{j.fenced, j.wip}, openAtOnce).StringSlice()
		if err != nil {
			return nil, err
		}
		left = atoi(reply[0])
		if missing := atoi(reply[1]); missing > 0 {
			j.r.log.Error().Str("place", j.wip).Int("jobs", missing).Msg("redis has lost jobs of a process that has died")
		}
		sick = make(map[string]string) // each call meets them again
		for reply = reply[2:]; len(reply) >= 2; reply = reply[2:] {
			sick[reply[0]] = reply[1]
		}
	}
	return sick, nil
}

// back puts some units back as they are.
func (j *judged) back(ctx context.Context, receipts []string) (int, error) {
	if j.r.reg.cluster {
		return j.backOnCluster(ctx, receipts)
	}
	args := make([]any, len(receipts))
	for i, receipt := range receipts {
		args[i] = receipt
	}
	list := Unit{Queue: j.queue, Suspect: j.set}
	return putbackScript.Run(ctx, j.r.rdb, []string{j.fenced, j.wip, keys.Queue(list.list())}, args...).Int()
}

var errLock = errors.New("another rescuer has taken over")

// lock takes ("1"), extends or releases (0) our lock and tells whether we held it.
// A lock that an earlier round of this process holds, whose reply was lost, is
// taken over.
func (r *Rescuer) lock(ctx context.Context, token string, d time.Duration, take string) (bool, error) {
	return lockScript.Run(ctx, r.rdb, []string{keys.Rescue}, token, d.Milliseconds(), take, r.own).Bool()
}

// isReply tells whether Redis itself sent the error: then other commands may work.
func isReply(err error) bool {
	var reply redis.Error
	var refused *refusal
	return errors.As(err, &reply) || errors.As(err, &refused)
}
