// This file is what a process of troupe tells of itself for views of a whole fleet: with
// each beat, at most 1 KB, where its tree may have thirty.

package beat

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/tree"
)

// MostPulses is how many bytes a pulse has.
const MostPulses = 1024

// PulseLife is how long it stays after the last beat. A process that has died is shown so long.
const PulseLife = 15 * time.Minute

// Pulse is one.
type Pulse struct {
	Identity     string            `json:"-"`                 // ReadPulses sets it
	At           float64           `json:"at"`                // seconds since the epoch
	Version      string            `json:"version"`           // of troupe
	Tag          string            `json:"tag,omitempty"`     // of the process
	Phase        string            `json:"phase"`             // running, quiet or stopping
	Actors       map[string]string `json:"actors"`            // states of those that are no processors, if neither running nor starting; by path without launcher/
	Capsules     []PulseCapsule    `json:"capsules"`          // at most ten
	Restarts     int               `json:"restarts"`          // of all actors since the start
	Recent       int               `json:"restarts_1m"`       // within the last minute
	Failure      string            `json:"failure,omitempty"` // the last one of an actor: path and error
	Unresponsive int               `json:"unresponsive,omitempty"`
	Oldest       float64           `json:"oldest,omitempty"` // when the longest run began, in seconds since the epoch
	Fencings     uint64            `json:"fencings,omitempty"`
	Log          string            `json:"log,omitempty"`         // blocked, or refused, while it takes no line
	Dropped      uint64            `json:"log_dropped,omitempty"` // lines of the log since the start
	Taken        map[string]uint64 `json:"taken,omitempty"`       // jobs taken since the start, by queue; at most 16 queues

	// Outboxes are the first five relays of outboxes, by name.
	Outboxes map[string]tree.Relay `json:"outboxes,omitempty"`
	// Elsewhere are queues that are not Sidekiq's queue:NAME, each with the system that keeps it.
	Elsewhere map[string]string `json:"elsewhere,omitempty"`
}

// PulseCapsule is the count of the processors of a capsule by state.
type PulseCapsule struct {
	Name    string `json:"name"`
	Busy    int    `json:"busy,omitempty"`
	Idle    int    `json:"idle,omitempty"`
	Down    int    `json:"down,omitempty"`    // starting, crashed or restarting
	Held    int    `json:"held,omitempty"`    // held or suspended
	Stopped int    `json:"stopped,omitempty"` // or stopping
}

// JSON is the pulse as text, without its least important parts if it were too long.
func (p Pulse) JSON() []byte {
	for _, shorten := range []func(){
		func() {},
		func() { p.Taken = nil },
		func() {
			for name, r := range p.Outboxes {
				r.Error, r.Reason = "", ""
				p.Outboxes[name] = r
			}
		},
		func() { p.Failure = "" },
		func() { p.Actors = nil },
		func() { p.Elsewhere = nil },
		func() { p.Outboxes = nil },
		func() { p.Capsules = []PulseCapsule{p.sum()} },
		func() { p.Tag, p.Version = "", "" },
	} {
		shorten()
		if text, err := json.Marshal(p); err == nil && len(text) <= MostPulses {
			return text
		}
	}
	return nil
}

// sum is all capsules in one.
func (p Pulse) sum() PulseCapsule {
	all := PulseCapsule{Name: "all"}
	for _, c := range p.Capsules {
		all.Busy, all.Idle, all.Down, all.Held, all.Stopped = all.Busy+c.Busy, all.Idle+c.Idle, all.Down+c.Down, all.Held+c.Held, all.Stopped+c.Stopped
	}
	return all
}

// pulseTidy is how often a process takes old pulses out of the index and makes that live on.
const pulseTidy = time.Minute

// WritePulse adds to a pipeline what publishes a pulse.
func WritePulse(ctx context.Context, pipe redis.Pipeliner, identity string, text []byte, now time.Time) {
	writePulse(ctx, pipe, identity, text, now)
	tidyPulses(ctx, pipe, now)
}

func writePulse(ctx context.Context, pipe redis.Pipeliner, identity string, text []byte, now time.Time) {
	pipe.Set(ctx, keys.Pulse(identity), text, PulseLife)
	pipe.ZAdd(ctx, keys.Pulses, redis.Z{Score: float64(now.Unix()), Member: identity})
}

func tidyPulses(ctx context.Context, pipe redis.Pipeliner, now time.Time) {
	pipe.ZRemRangeByScore(ctx, keys.Pulses, "-inf", strconv.FormatInt(now.Add(-PulseLife).Unix(), 10))
	pipe.PExpire(ctx, keys.Pulses, PulseLife)
}

// ClearPulse adds to a pipeline what takes the pulse of a process away that has ended well.
func ClearPulse(ctx context.Context, pipe redis.Pipeliner, identity string) {
	pipe.Unlink(ctx, keys.Pulse(identity))
	pipe.ZRem(ctx, keys.Pulses, identity)
}

// ReadPulses returns the pulses of all processes of the last 15 minutes that have not ended well, by
// identity. What cannot be read is left out.
func ReadPulses(ctx context.Context, rdb redis.UniversalClient) (map[string]*Pulse, error) {
	ids, err := rdb.ZRange(ctx, keys.Pulses, 0, -1).Result()
	if err != nil {
		return nil, err
	}
	texts := make([]*redis.StringCmd, len(ids))
	if _, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, id := range ids {
			texts[i] = pipe.Get(ctx, keys.Pulse(id))
		}
		return nil
	}); err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return nil, err
	}
	all := make(map[string]*Pulse, len(ids))
	for i, id := range ids {
		p := &Pulse{Identity: id}
		if json.Unmarshal([]byte(texts[i].Val()), p) == nil {
			all[id] = p
		}
	}
	return all, nil
}
