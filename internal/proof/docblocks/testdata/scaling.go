package testdata

import "github.com/redis/go-redis/v9"

var orders, mail *redis.Client

// Welcome are the arguments of a job.
type Welcome struct {
	User int `arg:"0"`
}

// Class is its name.
func (Welcome) Class() string { return "Welcome" }
