package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
)

// Resize is a job with a result.
type Resize struct{ Width int }

// Class names it.
func (Resize) Class() string { return "Resize" }

// Thumb is that result.
type Thumb struct{ Bytes int }

func ExampleAwait() {
	mr, _ := miniredis.Run()
	defer mr.Close()
	rdb := redis.NewClient(&redis.Options{Addr: mr.Addr()})
	defer func() { _ = rdb.Close() }()

	var jobs troupe.Registry
	troupe.HandleResult(&jobs, func(_ context.Context, job *troupe.Job[Resize]) (Thumb, error) {
		if job.Args.Width == 0 {
			return Thumb{}, troupe.Kill(errors.New("no width"))
		}
		return Thumb{Bytes: 10 * job.Args.Width}, nil
	})
	daemon, err := actors.New(actors.Config{Redis: rdb, Registry: &jobs})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := daemon.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _, _ = daemon.Stop(ctx) }()

	c := client.New(rdb)
	defer func() { _ = c.Close(ctx) }()
	for _, width := range []int{100, 0} {
		jid, err := c.Push(ctx, Resize{Width: width}, client.KeepResult(time.Minute))
		if err != nil {
			fmt.Println(err)
			return
		}
		thumb, err := client.Await[Thumb](ctx, c, jid)
		if failed := new(client.NotDoneError); errors.As(err, &failed) {
			fmt.Println(failed.Outcome, failed.Message)
			continue
		}
		fmt.Println(thumb.Bytes, err)
	}
	// Output:
	// 1000 <nil>
	// dead no width
}
