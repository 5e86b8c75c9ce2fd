package goworkers

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/retry"
	"github.com/troupehq/troupe/wire"
)

// Options say where the jobs are and who runs them. The zero value is a system without a
// namespace.
type Options struct {
	// Namespace is that of go-workers: "app" for keys that begin with "app:".
	Namespace string

	// Classes names the class whose handler runs all jobs of a queue, as go-workers has one
	// function for a queue and does not look at classes. Jobs of other queues are run by the
	// handler of their own class.
	Classes map[string]string
}

// New returns the wire of a capsule. Capsules of one namespace should share it.
func New(o Options) *wire.Wire {
	n := namespace(o.Namespace)
	w := &wire.Wire{
		Name: "go-workers", Key: n.key, FailedApart: true,
		Parse: func(payload []byte, queue string) (*troupe.Payload, error) {
			return parse(payload, o.Classes[queue])
		},
		Rules:   &retry.Rules{Retries: retries, Record: n.record, Wait: wait},
		Promote: n.promote,
	}
	if n == "" {
		// A member of the set processes that lacks these ends the heartbeats of go-workers2.
		w.Beat = map[string]string{"worker_heartbeats": "[]"}
	}
	return w
}

// namespace is a Namespace.
type namespace string

// prefix is what all keys begin with.
func (n namespace) prefix() string {
	if n == "" {
		return ""
	}
	return string(n) + ":"
}

// Keys that Sidekiq's capsules in the same database have as well, for something else.
const (
	retrySet = "goretry"
	ownKeys  = "troupe:goworkers:"
)

// key is what go-workers calls a key of Sidekiq, or where a key of troupe is.
func (n namespace) key(key string) string {
	switch {
	case key == keys.Retry:
		key = retrySet
	case key == keys.Poller, key == keys.Standby, strings.HasPrefix(key, keys.Flushed("")):
		key = ownKeys + strings.TrimPrefix(key, "troupe:")
	}
	return n.prefix() + key
}

// parse is the job that handlers get: arguments that are no array are its only one, and class,
// if it is given, is its class.
func parse(payload []byte, class string) (*troupe.Payload, error) {
	p, err := troupe.ParsePayload(payload)
	if err != nil {
		return nil, err
	}
	if raw, _ := p.Get("args"); len(raw) == 0 || raw[0] != '[' {
		args := p.Args()
		if args == nil {
			args = []byte("[" + string(raw) + "]") // null and false are arguments here
		}
		p.Set("args", args)
	}
	if class != "" && class != p.Class() {
		p.SetString("class", class)
	}
	return p, nil
}

// defaultLimit is the limit of a job that names none.
const defaultLimit = 25

// retries is retry.Rules.Retries.
func retries(in retry.Failed) (left, never bool) {
	p := in.Payload
	limit, ok := p.Int("retry")
	if !ok {
		if asked, _ := p.Get("retry"); string(asked) != "true" {
			return false, true
		}
		limit = defaultLimit
		if most, ok := p.Int("retry_max"); ok && most >= 0 {
			limit = most
		}
	}
	count := max(p.Failures()-1, 0) // absent is 0
	return int64(count) < limit, false
}

// record is retry.Rules.Record.
func (n namespace) record(in retry.Failed) int64 {
	p := in.Payload
	p.SetString("queue", n.prefix()+in.Queue)
	p.SetString("error_message", in.Message)
	at, field := in.Now.UTC().Format("2006-01-02 15:04:05 MST"), "failed_at"
	count := int64(0)
	if _, again := p.Get("retry_count"); again {
		count, field = int64(min(p.Failures(), maxCount)), "retried_at"
	}
	p.SetString(field, at)
	p.SetInt("retry_count", count)
	return count
}

// maxCount is where retry_count stops growing: its fourth power is a number of seconds.
const maxCount = 1 << 30

// wait is retry.Rules.Wait: n⁴ + 15 + rand(0…29)·(n+1).
func wait(_ retry.Failed, count int64, random uint64) float64 {
	n := float64(count)
	thirty, _ := bits.Mul64(random, 30)
	return n*n*n*n + 15 + float64(thirty)*(n+1)
}

var errNoQueue = errors.New(`the field "queue" is not a name, expected that of the job's queue`)

// promote is wire.Wire.Promote. The field "at" goes: Sidekiq's poller would put the job back.
func (n namespace) promote(p *troupe.Payload, now time.Time) (*troupe.Payload, error) {
	named := p.Queue()
	queue := strings.TrimPrefix(named, n.prefix())
	if queue == "" {
		return nil, errNoQueue
	}
	if queue != named {
		p.SetString("queue", queue)
	}
	p.Delete("at")
	if err := p.SetJSON("enqueued_at", seconds(now)); err != nil {
		return nil, fmt.Errorf("enqueued_at: %w", err)
	}
	return p, nil
}

// seconds is a time as go-workers writes it.
func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
