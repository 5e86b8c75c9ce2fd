package actors_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
)

// Waiters where there can be none, or too many, are refused before anything runs, by
// their name.
func TestWaitersAreRefusedWhereThereCanBeNone(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	for want, capsules := range map[string][]actors.Capsule{
		"Capsules[0].Waiters is -1, expected 0 to 8":                    {{Waiters: -1}},
		"Capsules[1].Waiters is 9, expected 0 to 8":                     {{}, {Name: "b", Waiters: 9}},
		"capsule x: fetch: Waiters is 5, expected 0: the basic fetcher": {{Name: "x", Waiters: 5, Fetch: fetch.NewBasic}},
	} {
		c := actors.Config{Redis: rdb, Registry: &troupe.Registry{}, Capsules: capsules}
		if _, err := actors.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected one with %q", err, want)
		}
	}
}
