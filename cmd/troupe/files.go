package main

import (
	"os"

	"github.com/troupehq/troupe/internal/config"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/control"
)

// files is what the commands that look know of the configuration of daemons, see cli.Files.
type files struct{}

// Redis is the URL that is given, or else that of the environment.
func (files) Redis(given string) (string, error) { return config.RedisURL(given, os.Getenv) }

// Read reads a configuration file as the daemon would.
func (files) Read(file string) (cli.Settings, error) {
	s, err := config.Load(config.Flags{File: file}, os.Getenv)
	if err != nil {
		return cli.Settings{}, err
	}
	most, age := s.DeadSet()
	return cli.Settings{Redis: s.RedisURL, Shards: len(s.Trees), DeadMax: most, DeadAge: age, Keys: s.Keys, Unique: s.Unique()}, nil
}

// Queues reads the values of a flag by the rules of a file.
func (files) Queues(flag string, values []string) ([]control.QueueWeight, error) {
	q, err := config.ParseQueues(flag, values)
	if err != nil || q == nil {
		return nil, err
	}
	var queues []control.QueueWeight
	for _, e := range q.List() {
		queues = append(queues, control.QueueWeight{Queue: e.Queue, Weight: e.Weight})
	}
	return queues, nil
}
