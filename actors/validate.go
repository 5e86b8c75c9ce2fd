package actors

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/supervisor"
)

var capsuleName = regexp.MustCompile(`^[A-Za-z0-9_.:-]+$`)

// reservedNames are the launcher's other children.
var reservedNames = []string{"heartbeat", "poller", "rescuer"}

// Validate reports every fault of the configuration at once, joined; each names
// the field, the value and what was expected.
func (c Config) Validate() error {
	var errs []error
	bad := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("config: %s is %v, expected %s", field, value, want))
	}
	if c.Redis == nil {
		bad("Redis", "nil", "a *redis.Client or *redis.ClusterClient")
	}
	if c.Registry == nil {
		bad("Registry", "nil", "a *troupe.Registry")
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"Timeout", c.Timeout}, {"Grace", c.Grace}, {"DeadTimeout", c.DeadTimeout},
		{"PollInterval", c.PollInterval}, {"PollIntervalPerProcess", c.PollIntervalPerProcess},
		{"Poison.Within", c.Poison.Within}, {"HeartbeatInterval", c.HeartbeatInterval}, {"MaxIterationRuntime", c.MaxIterationRuntime},
	} {
		if d.value < 0 {
			bad(d.field, d.value, "a positive duration, or 0 for the default")
		}
	}
	if c.Lease != 0 && c.Lease < limits.MinLease {
		bad("Lease", c.Lease, fmt.Sprintf("at least %s, or 0 for %s", limits.MinLease, limits.Lease))
	}
	if c.Poison.Recoveries < -1 {
		bad("Poison.Recoveries", c.Poison.Recoveries, fmt.Sprintf("a positive number, 0 for %d, or -1 for no limit", limits.Recoveries))
	}
	if c.Poison.Suspect < -1 {
		bad("Poison.Suspect", c.Poison.Suspect, "a positive number, 0 for one less than Recoveries, or -1 for no suspects")
	}
	if c.MaxRetries < -1 {
		bad("MaxRetries", c.MaxRetries, fmt.Sprintf("a positive number, 0 for %d, or -1 for none", limits.Retries))
	}
	if err := c.Encryption.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("config: %w", err))
	}
	errs = append(errs, c.checkPeriodic()...)
	errs = append(errs, c.checkLimits()...)
	errs = append(errs, c.checkOutboxes()...)
	if _, ok := dialects[c.Metrics]; !ok {
		bad("Metrics", strconv.Quote(c.Metrics), `"both", "7", "8" or "off", or "" for "both"`)
	}
	if c.DeadMax < 0 {
		bad("DeadMax", c.DeadMax, fmt.Sprintf("a positive number, or 0 for %d", limits.DeadMax))
	}
	if len(c.Capsules) > 0 && c.Concurrency != 0 {
		bad("Concurrency", c.Concurrency, "0, as there are Capsules: each has its own")
	}
	if len(c.Capsules) > 0 && c.Queues != nil {
		bad("Queues", c.Queues.List().Names(), "nil, as there are Capsules: each has its own")
	}
	for i, mw := range c.Middleware {
		if mw == nil {
			bad(fmt.Sprintf("Middleware[%d]", i), "nil", "a troupe.Middleware")
		}
	}
	for i, mw := range c.ClientMiddleware {
		if mw == nil {
			bad(fmt.Sprintf("ClientMiddleware[%d]", i), "nil", "a client.Middleware")
		}
	}
	strategy := func(field string, s *supervisor.Strategy) { errs = append(errs, supervised.Check(field, s)) }
	strategy("Strategy", c.Strategy)
	seen := map[string]bool{}
	capsules := c.Capsules
	if len(capsules) == 0 {
		capsules = []Capsule{{Concurrency: c.Concurrency, Queues: c.Queues}}
	}
	fields := make([]string, len(capsules))
	for i, k := range capsules {
		field := fmt.Sprintf("Capsules[%d].", i)
		if len(c.Capsules) == 0 {
			field = ""
		}
		fields[i] = field
		name := k.Name
		if name == "" {
			name = "default"
		}
		switch {
		case !capsuleName.MatchString(name):
			bad(field+"Name", fmt.Sprintf("%q", name), "letters, digits and _ . : -")
		case seen[name]:
			bad(field+"Name", fmt.Sprintf("%q", name), "a name that no other capsule has")
		}
		if strings.HasPrefix(name, outboxPrefix) {
			bad(field+"Name", fmt.Sprintf("%q", name), "a name that does not begin as the actor of an outbox, "+outboxPrefix)
		}
		for _, r := range reservedNames {
			if name == r {
				bad(field+"Name", fmt.Sprintf("%q", name), "a name that is not an actor of the launcher")
			}
		}
		seen[name] = true
		if k.Concurrency < 0 || k.Concurrency > limits.MaxConcurrency {
			bad(field+"Concurrency", k.Concurrency, fmt.Sprintf("1 to %d, or 0 for %d", limits.MaxConcurrency, limits.Concurrency))
		}
		if k.Waiters < 0 || k.Waiters > limits.MaxWaiters {
			bad(field+"Waiters", k.Waiters, fmt.Sprintf("0 to %d", limits.MaxWaiters))
		}
		if k.FetchBytes < 0 || k.FetchBytes > limits.MaxFetchBytes {
			bad(field+"FetchBytes", k.FetchBytes, fmt.Sprintf("1 to %d, or 0 for %d", limits.MaxFetchBytes, limits.Bytes))
		}
		if l := k.Limits; l.Jobs < 0 || l.Time < 0 || l.Memory < 0 {
			bad(field+"Limits", fmt.Sprintf("%+v", l), "numbers of 0 or more")
		}
		if k.Rest < 0 {
			bad(field+"Rest", k.Rest, "a positive duration, or 0 for none")
		}
		if k.MaxUnresponsive < 0 {
			bad(field+"MaxUnresponsive", k.MaxUnresponsive, "0 or more")
		}
		if redisconn.OnCluster(c.Redis) && k.Wire != nil && (k.Wire.Key != nil || k.Wire.Fetch != nil) {
			bad(field+"Wire", k.Wire.Name, "a Redis that is no cluster: the keys of this system do not lie in one slot")
		}
		for j, mw := range k.Middleware {
			if mw == nil {
				bad(fmt.Sprintf("%sMiddleware[%d]", field, j), "nil", "a troupe.Middleware")
			}
		}
		strategy(field+"Strategy", k.Strategy)
		if k.Queues != nil && len(k.Queues.List().Names()) == 0 {
			bad(field+"Queues", "empty", "at least one queue")
		}
		if v, ok := k.Queues.(interface{ Validate() error }); ok {
			if err := v.Validate(); err != nil {
				errs = append(errs, fmt.Errorf("config: %sQueues: %w", field, err))
			}
		}
	}
	for _, err := range checkUnknown(capsules, fields, c.Registry) {
		errs = append(errs, fmt.Errorf("config: %w", err))
	}
	return errors.Join(errs...)
}
