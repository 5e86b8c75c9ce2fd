package laravel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// signals are what Laravel says to its workers through its cache.
type signals struct {
	looked  time.Time
	restart string // its value at the start, "" if there was none
	paused  map[string]bool
	ended   bool
}

// look reads the signals, once in a while; first takes note of the value of the restart signal.
func (f *fetcher) look(ctx context.Context, first bool) error {
	s := &f.signals
	if f.cache == nil || !first && time.Since(s.looked) < lookTime {
		return nil
	}
	key := func(name string) string { return f.s.Cache.Prefix + name }
	keys := []string{key("illuminate:queue:restart"), key("illuminate:queues:paused")}
	for _, q := range f.queues {
		keys = append(keys, key("illuminate:queue:paused:"+f.s.Connection+":"+q))
	}
	values := make([]string, len(keys))
	cmds, err := f.cache.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range keys {
			p.Get(ctx, k)
		}
		return nil
	})
	for i, cmd := range cmds {
		get, ok := cmd.(*redis.StringCmd)
		if !ok {
			continue
		}
		switch value, err := get.Result(); {
		case err == nil:
			values[i] = value
		case !errors.Is(err, redis.Nil):
			return fmt.Errorf("laravel: reading %q of the cache: %w", keys[i], err)
		}
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("laravel: reading the cache: %w", err)
	}
	if first {
		s.restart = values[0]
	}
	s.ended = s.ended || values[0] != s.restart
	s.paused = map[string]bool{}
	for i, q := range f.queues {
		s.paused[q] = isTrue(values[1]) || isTrue(values[2+i])
	}
	s.looked = time.Now()
	return nil
}

// isTrue reports whether a value of the cache is true to PHP.
func isTrue(value string) bool {
	switch strings.TrimSuffix(value, ";") {
	case "", "N", "b:0", "i:0", "0":
		return false
	}
	return true
}

// Ended implements fetch.Ending: queue:restart was called since Open.
func (f *fetcher) Ended() bool {
	f.turn <- struct{}{}
	defer f.end()
	return f.signals.ended
}
