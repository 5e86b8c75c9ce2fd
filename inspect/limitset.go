package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// SetLimit sets by hand what a limit allows, for all processes, until ResetLimit; on a Redis Cluster for each queue that has it. A
// limit that counts on the key of the gem sidekiq-throttled still does, and one that has a breaker keeps it: those of to are not looked
// at. What it holds is looked at within 5 s.
func (i *Inspector) SetLimit(ctx context.Context, name string, to Allowance) error {
	if !to.Defined() {
		return fmt.Errorf("set limit %.100q: got no allowance, expected one of ParseAllowance", name)
	}
	return i.define(ctx, name, "set", func(l *Limit) (job.Define, string, error) {
		if l.Allows.Throttled && to.Every > 0 {
			return "", "", fmt.Errorf("it counts on the key of the gem sidekiq-throttled: got the rate %s, expected so many at once", to)
		}
		text := to.text()
		if l.Allows.Throttled {
			text += " throttled"
		}
		if l.Allows.Breaker {
			text += " " + job.BreakerText(l.Allows.Failures, l.Allows.Rest)
		}
		return job.DefineSet, text, nil
	})
}

// ResetLimit has a limit allow again what the configuration says. One that no configuration has is gone then, and lets nobody in.
func (i *Inspector) ResetLimit(ctx context.Context, name string) error {
	return i.define(ctx, name, "reset", func(*Limit) (job.Define, string, error) { return job.DefineReset, "", nil })
}

func (i *Inspector) define(ctx context.Context, name, verb string, how func(*Limit) (job.Define, string, error)) error {
	all, err := i.LimitRule(ctx, job.RuleName(name))
	if err != nil {
		if all, _, err = i.Limit(ctx, name); err != nil { // it is not defined, and rules with keys hold jobs
			return fmt.Errorf("%s limit %.100q: %w", verb, name, err)
		}
	}
	bases, err := i.limitBases(ctx)
	for _, l := range all {
		var what job.Define
		var text string
		if err == nil {
			what, text, err = how(l)
		}
		for _, b := range bases {
			if err == nil && b.queue == l.Queue {
				if _, err = job.DefineLimits(ctx, i.db(), b.key, what, map[string]string{job.RuleName(name): text}); err == nil {
					err = i.lookAtLimit(ctx, b.key, job.RuleName(name))
				}
			}
		}
		if err != nil {
			return fmt.Errorf("%s limit %.100q: %w", verb, name, err)
		}
	}
	return nil
}

// lookAtLimit is lookAt for all rules of a limit.
func (i *Inspector) lookAtLimit(ctx context.Context, base, name string) error {
	rules, err := i.db().ZRange(ctx, keys.HeldRules(base), 0, rulesShown).Result()
	if err != nil {
		return err
	}
	return i.lookAt(ctx, base, slices.DeleteFunc(rules, func(rule string) bool {
		of, _, _ := strings.Cut(rule, ":")
		return of != name
	})...)
}

// lookAt makes the leader look soon at those of the rules that hold jobs.
func (i *Inspector) lookAt(ctx context.Context, base string, rules ...string) error {
	if len(rules) == 0 {
		return nil
	}
	pipe := i.db().Pipeline()
	for _, rule := range rules {
		pipe.ZAddXX(ctx, keys.HeldRules(base), redis.Z{Score: 0, Member: rule})
	}
	pipe.Publish(ctx, keys.Wakeup, keys.LimitsChanged)
	_, err := pipe.Exec(ctx)
	return err
}
