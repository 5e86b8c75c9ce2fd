// Package cli is what the commands that look at a Redis have in common: their flags, their
// output and their exit codes.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/audit"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/internal/control"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/rights"
	"github.com/troupehq/troupe/internal/words"
)

// Exit codes of the commands.
const (
	Done        = 0
	Fault       = 1   // a bad flag, no Redis
	NotFound    = 2   // what was named is not there; a list that is empty is no fault
	Partly      = 3   // partly done, or unhealthy
	Refused     = 4   // not allowed, refused by Redis, or not possible for this thing
	Interrupted = 130 // by a signal
)

// ExitError ends a command with a code. Err may be nil: then there is nothing more to say.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode is what the process exits with.
func (e *ExitError) ExitCode() int { return e.Code }

// Exitf is an ExitError with a message.
func Exitf(code int, format string, args ...any) error {
	return &ExitError{code, fmt.Errorf(format, args...)}
}

// Files reads what the daemons are configured with. The command troupe brings it, so that who
// looks needs neither the engine nor what it is built from.
type Files interface {
	// Redis returns the URL that was given; without one, that of the environment.
	Redis(given string) (string, error)
	// Read reads a configuration file.
	Read(file string) (Settings, error)
	// Queues reads the values of a flag, each NAME or NAME,WEIGHT.
	Queues(flag string, values []string) ([]control.QueueWeight, error)
}

// Settings is what a configuration file says to those who look.
type Settings struct {
	Redis   string // URL
	Shards  int    // if there are more than one it names no Redis
	DeadMax int    // what the dead set keeps, and for how long
	DeadAge time.Duration
	Keys    troupe.Encryption
	Unique  map[string]troupe.Unique // by class of a handler whose jobs are unique
}

// Flags are those that all commands have.
type Flags struct {
	Files Files // the command's own

	redis, file string
	JSON        bool
	noColor     bool
	Args        string // mask, hide or show: see package mask
	ReadOnly    bool
	As          string // who does it, for the audit; "" is the user of the system
}

// Add adds them to a command: the last ones in its help.
func (f *Flags) Add(cmd *cobra.Command) {
	s := cmd.Flags()
	s.SortFlags = false
	s.BoolVar(&f.JSON, "json", false, "print JSON: an object, or one a line for a list")
	ways := []string{mask.Mask, mask.Hide, mask.Show}
	s.Var(OneOf(&f.Args, ways...), "args", "arguments of jobs: mask secrets, hide or show them (mask)")
	_ = cmd.RegisterFlagCompletionFunc("args", cobra.FixedCompletions(ways, cobra.ShellCompDirectiveNoFileComp))
	s.BoolVar(&f.noColor, "no-color", false, "no colors")
	s.BoolVar(&f.ReadOnly, "read-only", false, "refuse to change anything")
	s.StringVar(&f.As, "as", "", "who does it, for the audit (the user of the system)")
	s.StringVarP(&f.file, "config", "C", "", "configuration file of the daemons: it names the Redis, and what the dead set keeps")
	s.StringVar(&f.redis, "redis", "", "Redis to use (REDIS_PROVIDER, REDIS_URL, redis://localhost:6379/0)")
}

// Empty is the error of the first flag that was given without a value, as by a shell variable that
// is not set; nil if there is none.
func Empty(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(flag *pflag.Flag) {
		empty := flag.Value.String() == ""
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			empty = len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")
		}
		if empty && err == nil {
			err = Exitf(Fault, `--%s is "", expected a value`, flag.Name)
		}
	})
	return err
}

// Session is one run of a command on a Redis.
type Session struct {
	Flags
	*fleet.Fleet
	In       io.Reader
	Out, Err io.Writer
	Terminal bool // Out is a terminal: there is a head line, and columns are aligned
	Color    bool
	Address  string // of Redis, without a password

	changes bool        // Change was called
	did     audit.Entry // what it was about
}

// Run runs fn with a session, whose context ends with SIGINT or SIGTERM; a second signal ends the
// program. An error of fn that is no ExitError gets the address of the Redis, and exit code Refused
// with what to do if Redis has refused something. The end of the context is exit code 130.
func (f *Flags) Run(cmd *cobra.Command, fn func(ctx context.Context, s *Session) error) error {
	if err := Empty(cmd.Flags()); err != nil {
		return err
	}
	url, settings, err := settings(f.Files, f.redis, f.file)
	if err != nil {
		return err
	}
	rdb, err := redisconn.FromURL(url, redisconn.Need{})
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	s := &Session{
		Flags: *f, Fleet: fleet.New(rdb, mask.New(f.Args, nil, nil)), In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr(),
		Address: redisconn.Mask(url),
	}
	if out, ok := s.Out.(*os.File); ok {
		s.Terminal = term.IsTerminal(int(out.Fd()))
	}
	s.Color = s.Terminal && !f.noColor && os.Getenv("NO_COLOR") == ""
	s.Inspector.DeadMax, s.Inspector.DeadTimeout = cmp.Or(settings.DeadMax, s.Inspector.DeadMax), cmp.Or(settings.DeadAge, s.Inspector.DeadTimeout)
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	err = fn(ctx, s)
	if s.changes {
		s.audit(ctx, cmd, err)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &ExitError{Interrupted, nil}
	case errors.As(err, new(*ExitError)):
		return err
	case errors.Is(err, inspect.ErrNotFound):
		return &ExitError{NotFound, err}
	}
	if r, ok := redisconn.Refused(err); ok {
		if r.Code == "NOPERM" {
			if lacks := s.MayLook(ctx); lacks != nil {
				return lacks
			}
		}
		return Exitf(Refused, "redis refuses this: %s: %w (redis %s)\n%s", r.Text, err, s.Address, r.Do)
	}
	return fmt.Errorf("%w (redis %s)", err, s.Address)
}

// URL is that of the Redis, by --redis, the file of --config or the environment.
func URL(files Files, redis, file string) (string, error) {
	url, _, err := settings(files, redis, file)
	return url, err
}

// settings are the URL and what the file says.
func settings(files Files, redis, file string) (url string, said Settings, err error) {
	if file != "" {
		if said, err = files.Read(file); err != nil {
			return "", said, err
		}
		switch {
		case redis != "":
		case said.Shards > 1:
			return "", said, Exitf(Fault, "%s names %d Redis servers, expected --redis to choose one", file, said.Shards)
		default:
			return said.Redis, said, nil
		}
	}
	url, err = files.Redis(redis)
	return url, said, err
}

// MayLook is an error that names all rights that looking needs and the user lacks.
func (s *Session) MayLook(ctx context.Context) error { return s.may(ctx, rights.Tool{Name: "looking"}) }

// May is called before anything is changed: it is Change, and else an error that names all
// rights that changing needs and the user lacks, before a part of it is done.
func (s *Session) May(ctx context.Context, what string) error {
	if err := s.Change(what); err != nil {
		return err
	}
	return s.may(ctx, rights.Tool{Name: what, Changes: true})
}

func (s *Session) may(ctx context.Context, t rights.Tool) error {
	if _, err := rights.CheckTool(ctx, s.Redis, t); err != nil {
		return &ExitError{Refused, err}
	}
	return nil
}

// Change is called before anything is changed; with --read-only it is an error. What follows is in the
// audit.
func (s *Session) Change(what string) error {
	if s.ReadOnly {
		return Exitf(Refused, "%s is refused by --read-only", what)
	}
	s.changes = true
	return nil
}

// Ask is when Confirm asks.
type Ask struct {
	Yes    bool // never: --yes was given
	N      int64
	Always bool // on a terminal, however few there are: there is no way back
}

// Confirm asks on the terminal whether to do something to N things, if they are more than 100, or always,
// and --yes was not given: the number is to be typed. Without a terminal more than 100 are refused.
func (s *Session) Confirm(ctx context.Context, ask Ask, format string, args ...any) (err error) {
	in, ok := s.In.(*os.File)
	terminal := ok && term.IsTerminal(int(in.Fd()))
	if ask.Yes || ask.N == 0 || ask.N <= 100 && (!ask.Always || !terminal) {
		return nil
	}
	defer func() { s.changes = s.changes && err == nil }()
	what := fmt.Sprintf(format, args...)
	if !terminal {
		return Exitf(Refused, "to %s, --yes is needed", what)
	}
	_, _ = fmt.Fprintf(s.Err, "To %s, type %s: ", Line(what), words.Count(ask.N))
	return typed(ctx, in, ask.N)
}

// typed waits until n is typed, or something else, or ctx ends.
func typed(ctx context.Context, in io.Reader, n int64) error {
	answer := make(chan int64, 1)
	go func() {
		var text string
		_, _ = fmt.Fscanln(in, &text)
		number, _ := strconv.ParseInt(strings.ReplaceAll(text, ",", ""), 10, 64) // what is no number is 0
		answer <- number
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case number := <-answer:
		if number != n {
			return Exitf(Refused, "nothing was done")
		}
		return nil
	}
}
