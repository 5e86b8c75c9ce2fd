package troupe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupehq/troupe"
)

// The fields of a job are read and changed one by one; all others keep their bytes.
func ExamplePayload_Get() {
	p, err := troupe.ParsePayload([]byte(`{"class":"Report","args":[1.10],"jid":"5f0c","retry_count":2,"tags":["may"],"tenant":42}`))
	if err != nil {
		panic(err)
	}
	raw, there := p.Get("args")
	tenant, isInt := p.Int("tenant")
	fmt.Println(string(raw), there, tenant, isInt, p.Failures(), p.Tags())
	later := p.Clone()
	later.SetString("queue", "low")
	later.SetInt("tenant", 43)
	later.Delete("tags")
	fmt.Println(string(later.Bytes()))
	// Output:
	// [1.10] true 42 true 3 [may]
	// {"class":"Report","args":[1.10],"jid":"5f0c","retry_count":2,"tenant":43,"queue":"low"}
}

// What a registry knows: its classes, and the former names of them.
func ExampleRegistry_Classes() {
	r := troupe.NewRegistry()
	troupe.HandleClass(r, "Report", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }))
	r.Alias("ReportJob", "Report")
	fmt.Println(slices.Sorted(slices.Values(r.Classes())), r.Aliases())
	// Output: [Report] map[ReportJob:Report]
}

// A wait without the jitter, which the daemon else adds: for an API that says when to come again.
func ExampleRetryExactly() {
	fmt.Println(troupe.RetryExactly(time.Minute, errors.New("429")))
	fmt.Println(troupe.Exactly(time.Minute).Wait())
	// Output:
	// 429
	// 1m0s true
}

// A job of a periodic job knows for which tick it was pushed.
func ExampleTick() {
	p, err := troupe.ParsePayload([]byte(`{"class":"Report","args":[],"troupe_tick":"2026-11-27T03:00:00Z"}`))
	if err != nil {
		panic(err)
	}
	tick, periodic := troupe.Tick(p)
	fmt.Println(tick.UTC(), periodic)
	// Output: 2026-11-27 03:00:00 +0000 UTC true
}
