package sched_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe/sched"
	"github.com/troupehq/troupe/testkit"
)

// In a fleet that was large the third process asks for a seat every few minutes;
// on its beats it sees that one is free.
func TestAFreeSeatIsSeenOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mr := testkit.NewMemory(t)
		var sent atomic.Int64
		rdb := mini(mr, &sent)
		ctx := context.Background()
		for i := range 1000 {
			rdb.SAdd(ctx, "processes", fmt.Sprint("host:", i))
		}
		ride := func(w *watch) bool {
			p := rdb.Pipeline()
			end := w.s.Ride(ctx, p)
			if end == nil {
				return false
			}
			if _, err := p.Exec(ctx); err != nil {
				t.Error(err)
			}
			end()
			return true
		}
		if p := rdb.Pipeline(); sched.New(sched.Config{Redis: rdb}).Ride(ctx, p) != nil || p.Len() != 0 {
			t.Error("who does not watch rides")
		}
		var all []*watch
		for _, id := range []string{"a", "b", "c"} {
			all = append(all, startWatch(t, rdb, id))
			synctest.Wait()
		}
		a, b, c := all[0], all[1], all[2]
		if ride(a) || ride(b) {
			t.Error("who has a seat rides")
		}
		before := sent.Load()
		for range 10 {
			time.Sleep(10 * time.Second)
			if !ride(c) {
				t.Fatal("it cannot ride")
			}
		}
		if n := sent.Load() - before; n > 2*20+10+5 { // a connection is opened, too
			t.Errorf("%d commands in 100 s: it asks though no seat is free", n)
		}
		if err := a.stop(); err != nil {
			t.Error(err)
		}
		for range 2 {
			time.Sleep(5 * time.Second)
			ride(c)
		}
		synctest.Wait()
		if n, _, _ := c.count(sched.Elected); n != 1 {
			t.Errorf("elected %d times within 10 s", n)
		}
		for _, w := range []*watch{b, c} {
			if err := w.stop(); err != nil {
				t.Error(err)
			}
		}
		_ = rdb.Close()
	})
}
