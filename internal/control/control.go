// Package control sends requests to running processes of troupe and brings their replies. A
// request waits in a list of the process, for a minute.
package control

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// Request is what a process is asked for.
type Request struct {
	ID          string        `json:"id"`                    // Send makes one
	Do          string        `json:"do"`                    // Cancel, Configure or Look
	JID         string        `json:"jid,omitempty"`         // of the job to cancel
	Fetched     bool          `json:"fetched,omitempty"`     // also cancel it if it was fetched and has not begun
	Capsule     string        `json:"capsule,omitempty"`     // to configure; "" means the only one
	Concurrency int           `json:"concurrency,omitempty"` // 0 keeps it
	Queues      []QueueWeight `json:"queues,omitempty"`      // nil keeps them
	Expires     float64       `json:"expires"`               // seconds since the epoch; later it is not obeyed
}

// QueueWeight is a queue, with weight 0 for all if they are taken from in strict order.
type QueueWeight struct {
	Queue  string `json:"queue"`
	Weight int    `json:"weight"`
}

// What a process can be asked for.
const (
	Cancel    = "cancel"    // cancel the job JID
	Configure = "configure" // change concurrency and queues of a capsule
	Look      = "look"      // beat now: obey signals, publish the tree
)

// Reply is what a process answers.
type Reply struct {
	Process string `json:"process"`
	Result  string `json:"result"`        // Done, Deleted, NotMine or Refused
	Why     string `json:"why,omitempty"` // of Refused
}

// The results of a request.
const (
	Done    = "done"
	Deleted = "deleted"  // the job to cancel had not begun, and is in Redis no more
	NotMine = "not mine" // the job is not here, there is no such capsule
	Refused = "refused"
)

// life is how long a request and its replies wait.
const life = time.Minute

// ErrNoReply is the error of Send when a process has not answered in time.
var ErrNoReply = errors.New("no reply")

// Send sends a request to processes and calls each with every reply, until all
// have replied or each returns false. If ctx ends before that, the error is ErrNoReply.
func Send(ctx context.Context, rdb redis.UniversalClient, identities []string, r Request, each func(Reply) bool) error {
	r.ID = rand.Text()
	if err := send(ctx, rdb, identities, r); err != nil {
		return err
	}
	for left := len(identities); left > 0; {
		text, err := rdb.BLPop(ctx, time.Second, keys.Replies(r.ID)).Result()
		until, bounded := ctx.Deadline()
		switch {
		case ctx.Err() != nil, err != nil && bounded && !time.Now().Before(until): // the connection's own time-out may come first
			return fmt.Errorf("%w from %d of %d processes", ErrNoReply, left, len(identities))
		case errors.Is(err, redis.Nil):
			continue
		case err != nil:
			return err
		}
		left--
		var reply Reply
		if err := json.Unmarshal([]byte(text[1]), &reply); err != nil {
			return fmt.Errorf("a reply of a process: %w", err)
		}
		if !each(reply) {
			return nil
		}
	}
	return nil
}

func send(ctx context.Context, rdb redis.UniversalClient, identities []string, r Request) error {
	r.Expires = float64(time.Now().Add(life).UnixMicro()) / 1e6
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, id := range identities {
			pipe.RPush(ctx, keys.Requests(id), text)
			pipe.PExpire(ctx, keys.Requests(id), life)
		}
		return nil
	})
	return err
}

// Wake asks processes to look at their signals, and to beat, now. It does not wait for that.
func Wake(ctx context.Context, rdb redis.UniversalClient, identities ...string) error {
	return send(ctx, rdb, identities, Request{Do: Look})
}

// Requests waits for a request to a process and returns it if it is not too old.
func Requests(ctx context.Context, rdb redis.UniversalClient, identity string, wait time.Duration) ([]Request, error) {
	key := keys.Requests(identity)
	text, err := rdb.BLMove(ctx, key, key, "LEFT", "RIGHT", wait).Result() // where it expires, should the process die now
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err == nil {
		err = rdb.LRem(ctx, key, 1, text).Err()
	}
	if err != nil {
		return nil, err
	}
	var all []Request
	var r Request
	if err := json.Unmarshal([]byte(text), &r); err == nil && r.Expires > float64(time.Now().UnixMicro())/1e6 {
		all = append(all, r)
	}
	return all, nil
}

// Answer sends a reply.
func Answer(ctx context.Context, rdb redis.UniversalClient, r Request, reply Reply) error {
	text, err := json.Marshal(reply)
	if err != nil || r.ID == "" { // nobody waits
		return err
	}
	_, err = rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.RPush(ctx, keys.Replies(r.ID), text)
		pipe.PExpire(ctx, keys.Replies(r.ID), life)
		return nil
	})
	return err
}
