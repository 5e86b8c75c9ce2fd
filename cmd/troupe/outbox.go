package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/internal/config"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/words"
	"github.com/troupehq/troupe/outbox"
)

// outboxTime bounds a command that looks at a database or changes it.
const outboxTime = 10 * time.Minute

func outboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "outbox", Short: "Look at the tables of an outbox, make them, and push kept rows again",
		Long: `Outbox has commands for the databases under outbox: of a configuration file, whose rows
"troupe run" brings to Redis. They ask the database, and no Redis.`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(outboxStatusCommand(), outboxSchemaCommand(), outboxReplayCommand())
	return cmd
}

// database is one of the configuration file.
type database struct {
	flags config.Flags
}

func (d *database) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.VarP(wordFlag{&d.flags.File, "FILE"}, "config", "C", "configuration file (troupe.yml, config/sidekiq.yml)")
	f.VarP(wordFlag{&d.flags.Environment, "ENV"}, "environment", "e", "environment (development)")
}

// with calls f with the database that args name.
func (d *database) with(cmd *cobra.Command, args []string, f func(ctx context.Context, db *sql.DB, dialect outbox.Dialect) error) error {
	if err := cli.Empty(cmd.Flags()); err != nil {
		return err
	}
	settings, err := config.Load(d.flags, os.Getenv)
	if err != nil {
		return err
	}
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	db, dialect, err := settings.OpenOutbox(name)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(cmd.Context(), outboxTime)
	defer cancel()
	return f(ctx, db, dialect)
}

func outboxStatusCommand() *cobra.Command {
	var d database
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status [NAME]", Short: "Show what waits in an outbox, and what can be no job",
		Long: `Status shows how many rows of an outbox wait and how old the oldest of them is, how many pushed
rows are kept, whether a relay works, and the last ten rows that can be no job, with the reason.`,
		Example: "  troupe outbox status -C troupe.yml\n  troupe outbox status main --json",
		Args:    cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.with(cmd, args, func(ctx context.Context, db *sql.DB, dialect outbox.Dialect) error {
				s, err := outbox.ReadStatus(ctx, db, dialect)
				if err != nil {
					return err
				}
				out := &cli.Session{Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
				if asJSON {
					return out.PrintJSON(s)
				}
				led := "no relay works"
				if s.Led {
					led = "a relay works"
				}
				if _, err := fmt.Fprintf(out.Out, "waiting %s, kept %s, refused %s; %s\n",
					words.Plural(s.Waiting, "row")+oldest(s), words.Plural(s.Kept, "row"), words.Plural(s.Refused, "row"), led); err != nil {
					return err
				}
				return cli.Rows(out, "ID QUEUE SINCE REASON", "", s.Last, func(b outbox.BadRow) []string {
					return []string{fmt.Sprint(b.ID), b.Queue, words.Since(b.Since), words.FirstLine(b.Reason, 200)}
				})
			})
		},
	}
	d.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func oldest(s *outbox.Status) string {
	if s.Oldest.IsZero() {
		return ""
	}
	return " (the oldest for " + words.Few(time.Since(s.Oldest)) + ")"
}

func outboxSchemaCommand() *cobra.Command {
	var d database
	var dialect string
	var apply bool
	cmd := &cobra.Command{
		Use: "schema [NAME]", Short: "Print the tables of an outbox, or make them",
		Long: `Schema prints the statements that make the tables of an outbox, for --dialect or for the database
of the configuration file. With --apply it carries them out there; what is there stays as it is.`,
		Example: "  troupe outbox schema --dialect postgres > db/outbox.sql\n  troupe outbox schema --apply -C troupe.yml",
		Args:    cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			printed := func(dialect outbox.Dialect) error {
				text, err := outbox.Schema(dialect)
				if err == nil {
					_, err = fmt.Fprint(cmd.OutOrStdout(), text)
				}
				return err
			}
			if dialect != "" && apply {
				return errors.New("--apply is given beside --dialect, expected one of them: it is for the database of the file")
			}
			if dialect != "" {
				return printed(outbox.Dialect(dialect))
			}
			return d.with(cmd, args, func(ctx context.Context, db *sql.DB, dialect outbox.Dialect) error {
				if !apply {
					return printed(dialect)
				}
				if err := outbox.Migrate(ctx, db, dialect); err != nil {
					return err
				}
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "the tables are there")
				return err
			})
		},
	}
	cmd.Flags().Var(wordFlag{&dialect, "DIALECT"}, "dialect", "the language of the database, such as postgres")
	cmd.Flags().BoolVar(&apply, "apply", false, "make the tables in the database of the file")
	d.add(cmd)
	return cmd
}

func outboxReplayCommand() *cobra.Command {
	var d database
	var since string
	cmd := &cobra.Command{
		Use: "replay [NAME]", Short: "Have kept rows of an outbox pushed again",
		Long: `Replay is for a Redis that has lost its data: the rows of an outbox that were pushed since a time,
and are kept (keep: of the configuration file), are pushed again by the relay. What of them has run
runs again. Choose a time before the last one whose jobs Redis has kept.`,
		Example: "  troupe outbox replay --since 10m\n  troupe outbox replay main --since 2026-11-27T09:00:00Z",
		Args:    cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if since == "" {
				return errors.New("--since is missing, expected when Redis still had its data: a time, or a span back like 10m")
			}
			from, err := bulk.ParseTime(since, time.Now())
			if err != nil {
				return fmt.Errorf("--since: %w", err)
			}
			return d.with(cmd, args, func(ctx context.Context, db *sql.DB, dialect outbox.Dialect) error {
				n, err := outbox.Replay(ctx, db, dialect, from)
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s will be pushed again\n", words.Plural(n, "row"))
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "what was pushed since: a time, or a span back like 10m")
	d.add(cmd)
	return cmd
}
