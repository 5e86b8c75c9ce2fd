// Command pusher is a program that pushes a job and does nothing else.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
)

// Greet is a class of jobs.
type Greet struct{ Name string }

// Class is its name in Redis.
func (Greet) Class() string { return "Greet" }

func main() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	if _, err := client.New(rdb).Push(context.Background(), Greet{Name: "Ada"}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
