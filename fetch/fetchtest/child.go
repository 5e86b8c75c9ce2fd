package fetchtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/fetch"
)

// childEnv tells a process that it is a child, and what it is to do.
const childEnv = "TROUPE_FETCHTEST_CHILD"

// runsKey lists the payload of every run, written before it is settled.
const runsKey = "fetchtest:runs"

// childSpec is the work of a child process.
type childSpec struct {
	Harness  string
	URL      string
	Identity string
	Queues   []string
	Lease    time.Duration
	Batch    int
	Stop     string // step at which it says so and waits for a line on stdin; "" for none
}

// Main runs the tests of a binary or, in a child process of one, the child. It
// does not return. harnesses are those given to Crash.
func Main(m *testing.M, harnesses ...Harness) {
	text := os.Getenv(childEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var spec childSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		childFails(err)
	}
	for _, h := range harnesses {
		if h.Name == spec.Harness {
			if err := runChild(h, spec); err != nil {
				childFails(err)
			}
			os.Exit(0)
		}
	}
	childFails(fmt.Errorf("fetchtest.Main was not given the harness %q", spec.Harness))
}

func childFails(err error) {
	fmt.Fprintln(os.Stderr, "fetchtest child:", err)
	os.Exit(3)
}

// steps are the instants at which a child is killed. At ".../sent" Redis has
// carried the call out and the child has not read the reply.
var steps = []string{
	"open/sent", "open/after", "take/before", "take/sent", "take/after",
	"give back/before", "give back/sent", "give back/after", "run",
	"settle/before", "settle/sent", "settle/after", "ack/sent", "ack/after",
	"wait", "close/before", "close/sent", "close/after",
}

// child is a small daemon: it takes batches, runs them, settles them, until
// its queues stay empty.
type child struct {
	spec   childSpec
	net    *faults
	f      fetch.Fetcher
	effect *redis.Client
	held   ledger
	gave   map[string]bool // payloads that were given back once
	stdin  *bufio.Reader
}

func runChild(h Harness, spec childSpec) error {
	c := &child{spec: spec, net: &faults{}, held: ledger{}, gave: map[string]bool{}, stdin: bufio.NewReader(os.Stdin)}
	c.net.frozen = func() { c.stop(spec.Stop) }
	rdb, err := client(spec.URL, -1, c.net)
	if err != nil {
		return err
	}
	if c.effect, err = client(spec.URL, 3, &faults{}); err != nil {
		return err
	}
	ctx := context.Background()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return err
	}
	c.f, err = h.New(fetch.Env{
		Redis: rdb, Identity: spec.Identity, Capsule: "default", Queues: fetch.Strict(spec.Queues),
		Lease: spec.Lease, Logger: zerolog.Nop(),
	})
	if err != nil {
		return err
	}
	return c.run(ctx)
}

// at is called at each step.
func (c *child) at(step string) {
	if step == c.spec.Stop {
		c.stop(step)
	}
}

// say writes a line for the test.
func (c *child) say(line string) { _, _ = fmt.Fprintln(os.Stdout, line) }

// stop says where it is and waits to be killed, or told to go on.
func (c *child) stop(step string) {
	c.say("at " + step)
	if _, err := c.stdin.ReadString('\n'); err != nil {
		os.Exit(4) // the test is gone
	}
	c.spec.Stop = ""
}

// sent freezes the call that follows if it is the one to stop in.
func (c *child) sent(step string) {
	if step == c.spec.Stop {
		c.net.arm(freeze, 0)
	}
}

func (c *child) run(ctx context.Context) error {
	c.sent("open/sent")
	if err := c.do(func() error { return c.f.Open(ctx) }); err != nil {
		return err
	}
	c.at("open/after")
	for idle := 0; idle < 3; {
		c.at("take/before")
		c.sent("take/sent")
		var units []fetch.Unit
		err := c.do(func() (err error) { units, err = c.f.Take(ctx, c.spec.Batch, nil); return err })
		if err != nil {
			return err
		}
		c.held.add(units)
		if len(units) == 0 {
			idle++
			c.at("wait")
			_ = c.f.Wait(ctx, 20*time.Millisecond)
			continue
		}
		c.at("take/after")
		if units, err = c.giveBack(ctx, units); err != nil {
			return err
		}
		if err := c.work(ctx, units); err != nil {
			return err
		}
	}
	c.at("close/before")
	c.sent("close/sent")
	err := c.do(func() error { _, err := c.f.Close(ctx); return err })
	c.at("close/sent") // it was too slow, and there is nothing to close
	c.at("close/after")
	return err
}

// giveBack puts the last units of a batch back into their queues, each once, as
// a daemon does with what it fetched ahead and does not come to.
func (c *child) giveBack(ctx context.Context, units []fetch.Unit) (rest []fetch.Unit, err error) {
	var moves []fetch.Move
	for i, u := range units {
		if i >= len(units)-3 && !c.gave[string(u.Payload)] {
			c.gave[string(u.Payload)] = true
			moves = append(moves, fetch.Move{Unit: u, To: fetch.ToQueue})
		} else {
			rest = append(rest, u)
		}
	}
	c.at("give back/before")
	c.sent("give back/sent")
	if err := c.do(func() error { _, err := c.f.Settle(ctx, moves); return err }); err != nil {
		return nil, err
	}
	c.at("give back/after")
	for _, m := range moves {
		c.held.drop(m.Unit)
	}
	return rest, nil
}

// work runs a batch and settles it; a fenced one is forgotten.
func (c *child) work(ctx context.Context, units []fetch.Unit) error {
	var acks []fetch.Unit
	var moves []fetch.Move
	for i, u := range units {
		if err := c.effect.RPush(ctx, runsKey, u.Payload).Err(); err != nil {
			return err
		}
		switch ending(string(u.Payload)) {
		case toAck:
			acks = append(acks, u)
		case toRetry:
			moves = append(moves, fetch.Move{Unit: u, To: fetch.ToRetry, Score: 1, Payload: []byte("retry of " + string(u.Payload))})
		case toDead:
			moves = append(moves, fetch.Move{Unit: u, To: fetch.ToDead, Score: 1})
		}
		if i == len(units)/2 {
			c.at("run")
		}
	}
	c.at("settle/before")
	c.sent("settle/sent")
	if err := c.do(func() error { _, err := c.f.Settle(ctx, moves); return err }); err != nil {
		return err
	}
	c.at("settle/after")
	c.sent("ack/sent")
	if err := c.do(func() error { _, err := c.f.Take(ctx, 0, acks); return err }); err != nil {
		return err
	}
	c.at("ack/after")
	c.held.drop(units...)
	return nil
}

// do repeats a call that fails, and says when the fetcher was fenced: what the
// call was about is somebody else's then, or is decided by the next try.
func (c *child) do(call func() error) error {
	var err error
	for range 50 {
		if err = call(); err == nil {
			return nil
		}
		if errors.As(err, new(*fetch.FencedError)) {
			c.say("fenced")
			clear(c.held)
			continue
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// The ending of a job is chosen by the last digit of its number.
const (
	toAck = iota
	toRetry
	toDead
)

func ending(payload string) int {
	switch {
	case strings.HasSuffix(payload, "3"):
		return toRetry
	case strings.HasSuffix(payload, "7"):
		return toDead
	}
	return toAck
}
