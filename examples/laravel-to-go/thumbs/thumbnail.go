package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/wire/laravel"
)

// Thumbnail has the data of App\Jobs\Thumbnail.
type Thumbnail struct {
	Picture string `json:"picture"`
	Size    [2]int `json:"size"`
}

// Class is the name under which PHP pushes the job.
func (Thumbnail) Class() string { return `App\Jobs\Thumbnail` }

// Shop runs its jobs.
type Shop struct {
	Redis *redis.Client
	Queue *laravel.Client
}

// Thumb is the handler: as the method fire in PHP.
func (s *Shop) Thumb(ctx context.Context, job *troupe.Job[Thumbnail]) error {
	width, height := job.Args.Size[0], job.Args.Size[1]
	if width < 1 || height < 1 {
		return fmt.Errorf("picture %s has no size", job.Args.Picture)
	}
	scale := min(160/float64(width), 160/float64(height), 1)
	thumb := fmt.Sprintf("%dx%d", max(1, int(float64(width)*scale)), max(1, int(float64(height)*scale)))
	if err := s.Redis.HSet(ctx, "shop:thumbnails", job.Args.Picture, thumb).Err(); err != nil {
		return err
	}
	_, err := s.Queue.Push(ctx, laravel.Job{
		Queue: "mails", Name: `App\Jobs\Mail@fire`,
		Data: map[string]string{"picture": job.Args.Picture, "thumbnail": thumb},
	})
	return err
}
