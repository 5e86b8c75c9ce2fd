package client

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/script"
)

//go:embed pushonce.lua
var pushOnceSource string

var pushOnce = script.New("client.pushonce", pushOnceSource)

// markerTime is how long a batch is remembered: longer than anybody repeats it.
const markerTime = 24 * time.Hour

// sendOnce sends a batch by a script that takes each number once.
func (b *buffer) sendOnce(ctx context.Context, rdb *redis.Client, batch []entry, number uint64) ([]error, error) {
	steps := plan(batch)
	names, args := []string{keys.Pushed(b.token)}, []any{number, markerTime.Milliseconds()}
	for _, s := range steps {
		if !s.wakeUp {
			names = append(names, fmt.Sprint(s.args[1]))
		}
		args = append(append(args, len(s.args)), s.args...)
	}
	report, err := pushOnce.Run(ctx, rdb, names, args...).Text()
	if err != nil {
		return nil, err
	}
	if report == "" {
		return make([]error, len(batch)), nil
	}
	errs := make([]error, len(steps))
	for line := range strings.Lines(report) {
		i, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, err := strconv.Atoi(i)
		if err != nil || n < 0 || n >= len(steps) {
			return nil, fmt.Errorf("unexpected reply of the script: %q", report)
		}
		errs[n] = refusal(text)
	}
	for i := range steps {
		if steps[i].safe { // the jobs are there; the set of queues is of a wrong type, say
			errs[i] = nil
		}
	}
	return perEntry(batch, steps, errs), nil
}

// refusal is an error reply that came inside of another.
type refusal string

func (r refusal) Error() string { return string(r) }

// RedisError implements redis.Error.
func (refusal) RedisError() {}

var _ redis.Error = refusal("")
