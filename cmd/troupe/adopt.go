package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/words"
	"github.com/troupehq/troupe/wire/goworkers"
)

func adoptCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Put back what dead processes of another system had in progress",
		Args:  cli.Args(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(adoptGoWorkersCommand())
	return cmd
}

func adoptGoWorkersCommand() *cobra.Command {
	var a goworkers.Adoption
	flags := cli.Flags{Files: files{}}
	cmd := &cobra.Command{
		Use:   "go-workers",
		Short: "Put back what dead processes of go-workers or go-workers2 had in progress",
		Long: `Go-workers puts the jobs that dead processes of go-workers and go-workers2 had in progress
back into their queues, to the end that is taken next, bytes unchanged.

A process of go-workers leaves no sign of life. So a list is adopted only if its process is
named with --process, by the option "process" (ProcessID in go-workers2) that it was started
with; you must know that it is dead. If it lives all the same its jobs run twice. A process of
go-workers2 with heartbeats is adopted when its last one is older than --ttl, and never before.
All lists are shown, the others too.

It may be repeated, and broken off, at any time.`,
		Example: "  troupe adopt go-workers --namespace app --dry-run\n  troupe adopt go-workers --namespace app --process web-1 --process web-2",
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.Run(cmd, func(ctx context.Context, s *cli.Session) error {
				if !a.DryRun {
					if err := s.Change("adopting jobs"); err != nil {
						return err
					}
				}
				return adopt(ctx, s, a)
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(wordFlag{&a.Namespace, "NAME"}, "namespace", "the namespace of go-workers")
	f.StringArrayVar(&a.Processes, "process", nil, "a process that is dead; may be repeated")
	f.Var(cli.Span(&a.TTL), "ttl", "the age of the last heartbeat from which a process is dead, 60 s if not set")
	f.BoolVar(&a.DryRun, "dry-run", false, "show what is in progress, and do nothing")
	flags.Add(cmd)
	return cmd
}

func adopt(ctx context.Context, s *cli.Session, a goworkers.Adoption) error {
	lists, err := goworkers.Adopt(ctx, s.Redis, a)
	var moved int64
	for _, l := range lists {
		moved += l.Moved
	}
	text := "put back " + words.Plural(moved, "job")
	if len(lists) == 0 {
		text = "nothing is in progress"
	} else if rows := cli.Rows(s, "QUEUE JOBS IDLE PROCESS STATE PUT-BACK", "", lists, cells); err == nil {
		err = rows
	}
	s.Told(text, nil)
	if err == nil && !s.JSON {
		_, err = fmt.Fprintln(s.Out, text)
	}
	return err
}

func cells(l goworkers.Left) []string {
	idle := "unknown"
	if l.Idle >= 0 {
		idle = l.Idle.Round(time.Second).String()
	}
	return []string{words.Text(l.Queue), strconv.FormatInt(l.Jobs, 10), idle, words.Text(l.Process), string(l.State), strconv.FormatInt(l.Moved, 10)}
}

// namespaceFlag is for commands that look at what troupe itself has in progress.
func namespaceFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().Var(wordFlag{name, "NAME"}, "namespace", "what capsules with wire: go-workers have in this namespace")
}

// inNamespace has rdb work on the keys of a namespace of go-workers, if there is a name.
func inNamespace(rdb redis.UniversalClient, name string) {
	if name != "" {
		redisconn.MapKeys(rdb, goworkers.New(goworkers.Options{Namespace: name}).Key)
	}
}
