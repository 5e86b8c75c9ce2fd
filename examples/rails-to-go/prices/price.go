package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
)

// Price has the arguments of PriceWorker#perform, by their position.
type Price struct {
	OrderID int64   `arg:"0"`
	Basket  []Line  `arg:"1"`
	Coupon  *string `arg:"2"` // nil is allowed: a pointer
}

// Line is one article of a basket: a hash with string keys in Ruby.
type Line struct {
	Article string `json:"article"`
	Count   int64  `json:"count"`
}

// Class is the name of the Ruby worker.
func (Price) Class() string { return "PriceWorker" }

// UnknownArticle is an article that the shop does not have. Retries show it under
// the name that it has in Ruby.
type UnknownArticle struct{ Article string }

func (e UnknownArticle) Error() string { return "no article " + e.Article }

// ErrorClass is what stands in the job's error_class.
func (UnknownArticle) ErrorClass() string { return "PriceWorker::UnknownArticle" }

// Shop is what handlers need.
type Shop struct{ Redis redis.UniversalClient }

// Price performs PriceWorker's job. Run twice, it writes the same price twice.
func (s *Shop) Price(ctx context.Context, job *troupe.Job[Price]) error {
	cents := int64(0)
	for _, line := range job.Args.Basket {
		price, err := s.Redis.HGet(ctx, "shop:articles", line.Article).Int64()
		if errors.Is(err, redis.Nil) {
			return UnknownArticle{Article: line.Article}
		}
		if err != nil {
			return fmt.Errorf("price of %s: %w", line.Article, err)
		}
		cents += price * line.Count
	}
	if c := job.Args.Coupon; c != nil && *c == "TEN" {
		cents = cents * 9 / 10
	}
	return s.Redis.HSet(ctx, "shop:prices", strconv.FormatInt(job.Args.OrderID, 10), cents).Err()
}
