package contender

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/wire/laravel"
)

//go:embed laravel.php
var laravelWorker []byte

// laravelFormat is Laravel's queue, filled by troupe's client.
var laravelFormat = Format{Name: "laravel", Fill: fillLaravel, Left: leftLaravel, Failed: failedLaravel}

// laravelPrefix is what all its keys begin with.
const laravelPrefix = "laravel_database_"

func troupeLaravel() Contender {
	return Contender{Name: "troupe-laravel", About: "troupe on Laravel's queue, typed handler", Slow: true, Format: laravelFormat, Serve: serveLaravel}
}

// laravelPeer is the worker of Laravel as Debian ships it.
func laravelPeer() Contender {
	return Contender{
		Name: "laravel", About: "Laravel's worker 8.83 (Debian), a process for each processor of the others",
		Slow: true, Missing: laravelMissing, Format: laravelFormat, Command: laravelCommand,
	}
}

var laravelMissing = sync.OnceValue(func() error {
	if out, err := exec.CommandContext(context.Background(), "php", "-r", `require "Illuminate/Queue/autoload.php"; require "Illuminate/Redis/autoload.php"; exit(extension_loaded("redis") ? 0 : 1);`).CombinedOutput(); err != nil {
		return fmt.Errorf("php with Laravel's queue: %w: %s", err, out)
	}
	return nil
})

func laravelCommand(w Work) (*exec.Cmd, error) {
	file := filepath.Join(filepath.Dir(w.Progress), "laravel.php")
	if err := os.WriteFile(file, laravelWorker, 0o600); err != nil {
		return nil, err
	}
	dir, err := exec.CommandContext(context.Background(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/troupehq/troupe").Output()
	if err != nil {
		return nil, fmt.Errorf("the folder of troupe: %w", err)
	}
	app := filepath.Join(strings.TrimSpace(string(dir)), "wire/laravel/peers/app")
	_, port, err := net.SplitHostPort(w.Redis)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.Background(), "php", file)
	cmd.Env = append(os.Environ(), "REDIS_PORT="+port, "TROUPE_BENCH_PROGRESS="+w.Progress, "TROUPE_BENCH_APP="+app,
		"TROUPE_BENCH_WORKERS="+strconv.Itoa(w.Concurrency))
	return cmd, nil
}

func serveLaravel(ctx context.Context, s *Session) error {
	osproc.FloorHeap()
	w, err := laravel.New(laravel.Options{Prefix: laravelPrefix})
	if err != nil {
		return err
	}
	cfg := s.config(zerolog.New(os.Stderr).Level(zerolog.WarnLevel))
	cfg.Capsules[0].Wire = w
	cfg.Registry = new(troupe.Registry) // Task is four arguments, and Laravel's jobs have one
	troupe.HandleClass(cfg.Registry, class, troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
		var args []Task
		if err := json.Unmarshal(p.Args(), &args); err != nil {
			return err
		}
		return s.Perform(args[0])
	}))
	return actors.Run(ctx, cfg)
}

// laravelTask is the data of a job.
type laravelTask struct {
	Index int64  `json:"index"`
	Pad   string `json:"pad"`
}

func fillLaravel(ctx context.Context, st Store, l Load) error {
	c := laravel.NewClient(st.Redis, laravelPrefix)
	for i, queue := range l.Queues {
		var jobs []laravel.Job
		for t := range l.tasks(l.share(i)) {
			jobs = append(jobs, laravel.Job{Queue: queue, Name: class, Data: laravelTask{t.Index, t.Pad}})
		}
		if _, err := c.Push(ctx, jobs...); err != nil {
			return err
		}
	}
	return nil
}

func leftLaravel(ctx context.Context, st Store) (left int64, err error) {
	q := laravelPrefix + "queues:default"
	var counts []*redis.IntCmd
	_, err = st.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		counts = []*redis.IntCmd{p.LLen(ctx, q), p.ZCard(ctx, q+":delayed"), p.ZCard(ctx, q+":reserved")}
		return nil
	})
	for _, n := range counts {
		left += n.Val()
	}
	return left, err
}

func failedLaravel(ctx context.Context, st Store) (int64, error) {
	return st.Redis.ZCard(ctx, laravelPrefix+"queues:default:delayed").Result()
}
