package operate

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/audit"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/screen"
	"github.com/troupehq/troupe/internal/rights"
)

const (
	// frameWidth and frameRows are those of a frame that goes to no terminal.
	frameWidth = 120
	frameRows  = 50
	// askTime is how long the start may ask a Redis for rights: the screen tells if it does not answer.
	askTime = 5 * time.Second
)

func topCommand(files cli.Files) *cobra.Command {
	every := 2 * time.Second
	return spec{
		use: "top [:PAGE [OF]]", short: "Look at everything live", args: cli.Args(0, 2),
		long: `Top shows what is wrong now, with the dangers that the doctor finds each half minute, and pages of
processes, queues and jobs that are kept up to date:
:overview :processes :tree [ID] :queues :queue NAME :running :retry :scheduled :dead :events
:explain JID. Enter goes in, Esc back, / filters, ? tells all keys. Capitals act on the row under
the cursor and ask first: R retry, K kill, D delete, C cancel, P pause, Q quiet, S stop. Without a
terminal it prints one frame as text and ends.`,
		example: "  troupe top\n  troupe top :queue critical\n  troupe top :dead --read-only",
		flags: func(f *pflag.FlagSet) {
			f.Var(cli.Span(&every), "every", "time between two looks, 1s or more")
		},
		run: func(ctx context.Context, s *cli.Session, args []string) error { return top(ctx, s, args, every) },
	}.command(files)
}

func top(ctx context.Context, s *cli.Session, args []string, every time.Duration) error {
	page, err := screen.ParsePage(cmp.Or(strings.Join(args, " "), ":overview"))
	switch {
	case err != nil:
		return &cli.ExitError{Code: cli.Fault, Err: err}
	case every < time.Second:
		return cli.Exitf(cli.Fault, "--every is %s, expected 1s or more", every)
	case s.JSON:
		return cli.Exitf(cli.Fault, "--json: top has none, expected one of the commands stats, ps, tree, queues, jobs, events, explain")
	}
	o := screen.Options{
		Source: &screen.Redis{Fleet: s.Fleet, ReadOnly: s.ReadOnly, Audit: true}, Name: "troupe top", Place: s.Address, Page: page,
		Color: s.Color, ReadOnly: s.ReadOnly, Every: every,
		Did: func(ctx context.Context, what string, on screen.Page, said string, err error) string {
			if err = s.Audit(ctx, acted(what, on, said, err)); err != nil {
				return "(not in the audit: " + err.Error() + ")"
			}
			return ""
		},
	}
	if s.Terminal && cmp.Or(os.Getenv("TERM"), "dumb") != "dumb" {
		if err := mayAct(ctx, s, &o); err != nil {
			return err
		}
		return live(ctx, o)
	}
	text, err := screen.Text(ctx, o, frameWidth, frameRows)
	if err == nil {
		_, err = fmt.Fprint(s.Out, text)
	}
	return err
}

// mayAct asks for the rights of a screen that acts. For a user who may only look it refuses to act, and says
// what is missing.
func mayAct(ctx context.Context, s *cli.Session, o *screen.Options) error {
	if o.ReadOnly {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	_, err := rights.CheckTool(ctx, s.Redis, rights.Tool{Name: "acting here", Changes: true})
	if err == nil {
		return nil
	}
	o.ReadOnly, o.Said = true, err.Error()
	return s.MayLook(ctx)
}

// acted is the audit entry for an action on the screen. what begins with the verb; on is the page that the
// row leads to.
func acted(what string, on screen.Page, said string, err error) *audit.Entry {
	verb, _, _ := strings.Cut(what, " ")
	verb = strings.TrimSuffix(verb, ":")
	e := &audit.Entry{Via: audit.Screen, Outcome: "done", Text: said + ": " + what}
	switch {
	case err != nil:
		e.Outcome, e.Text = "failed", err.Error()+": "+what
	case said == string(inspect.Gone):
		e.Outcome = "warning"
	}
	switch on.Name {
	case "queue":
		e.Action, e.Path = "queues "+verb, "/queues/"+url.PathEscape(on.Arg)+"/"+verb
	case "tree":
		e.Action, e.Path = verb, "/processes/"+url.PathEscape(on.Arg)+"/"+verb
	case "explain":
		e.Action, e.Path, e.Jobs = "jobs "+verb, "/jobs/"+url.PathEscape(on.Arg)+"/"+verb, []string{on.Arg}
	default: // a job without a name
		e.Action = "jobs " + verb
	}
	return e
}

// live shows the screen. A signal ends it in good order, for it has the terminal.
func live(ctx context.Context, o screen.Options) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	tty, err := tcell.NewScreen()
	if err != nil {
		return err
	}
	logging.Disable() // the driver writes to stderr, across the screen
	sc := screen.New(tty, o)
	if err := sc.Open(); err != nil {
		return err
	}
	sc.Run(ctx)
	if ctx.Err() != nil {
		return &cli.ExitError{Code: cli.Interrupted}
	}
	return nil
}
