package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/console/explain"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/words"
)

func showCommand(files cli.Files) *cobra.Command {
	return spec{
		use: "show [SET|held|running|queue:NAME] JID", short: "Show one job", args: cli.Args(1, 2), words: append(slices.Clone(bulk.Sets), bulk.Held, "running"), names: queueKeys,
		long: `Show looks for a job among those that run, in the sets, in the queues and among those that limits hold, and shows its payload,
the backtrace of its error in lines, how far it has come if it tells that, and its result if that is kept. It goes through whole sets and queues, which takes seconds for a
million jobs, and says what it has searched if it finds none. With a set or a queue it looks only there. Of a job of more than 64 KB it
shows the beginning and the end, and how much is missing; jobs export has all of it.`,
		run: func(ctx context.Context, s *cli.Session, args []string) error {
			x, err := found(ctx, s, args)
			if err != nil {
				return err
			}
			if x.Record == nil { // its end is kept, and no more
				if s.JSON {
					return s.PrintJSON(map[string]any{"place": "", "result": x.Result})
				}
				return showTold(s, x)
			}
			p := s.Mask.Payload(x.Record)
			lines, wrong := s.Mask.Backtrace(x.Record)
			if s.JSON {
				shown := map[string]any{"place": x.Place, "when": moment(x.When), "payload": p}
				if len(lines) > 0 {
					shown["backtrace"] = lines
				}
				if x.Progress != nil {
					shown["progress"] = x.Progress
				}
				if x.Result != nil {
					shown["result"] = x.Result
				}
				return s.PrintJSON(shown)
			}
			when := words.At(x.When)
			if x.When.IsZero() && x.Entry != nil {
				when = scores.Words(x.Entry.Score)
			}
			if _, err = fmt.Fprintf(s.Out, "%s, %s\n", cli.Line(x.Place), when); err == nil {
				err = showTold(s, x)
			}
			for key := range p.Keys() {
				text, _ := p.Get(key)
				if key == "error_backtrace" && wrong == nil {
					_, err = fmt.Fprintf(s.Out, "  %s\n", key)
					for _, line := range lines {
						_, err = fmt.Fprintf(s.Out, "    %s\n", cli.Line(line))
					}
					continue
				}
				_, err = fmt.Fprintf(s.Out, "  %s\t%s\n", cli.Line(key), cli.Line(string(text)))
			}
			return err
		},
	}.command(files)
}

// showTold prints what a job has told of itself.
func showTold(s *cli.Session, x *explain.Explanation) (err error) {
	if text := x.Progress.String(); text != "" {
		_, err = fmt.Fprintf(s.Out, "progress: %s\n", cli.Line(text))
	}
	if r := x.Result; err == nil && r != nil {
		text := string(r.Value)
		if r.ErrorClass != "" {
			text = r.ErrorClass + ": " + r.ErrorMessage
		}
		_, err = fmt.Fprintf(s.Out, "result: %s, %s\t%s\n", r.Outcome, words.At(r.At), cli.Line(text))
	}
	return err
}

// found is a job that is named: wherever it is, or in the place before its name.
func found(ctx context.Context, s *cli.Session, args []string) (*explain.Explanation, error) {
	if len(args) == 1 {
		x, err := explain.Job(ctx, s.Redis, args[0], s.Mask)
		if err == nil && x.Record == nil && x.Result == nil {
			err = notFound(args[0], x)
		}
		return x, err
	}
	x := explain.Explanation{JID: args[1], Place: args[0]}
	if set := bulk.SetOf(s.Inspector, args[0]); set != nil {
		e, err := set.FindJob(ctx, x.JID)
		if errors.Is(err, inspect.ErrNotFound) {
			err = nil
		} else if err == nil {
			x.Entry, x.Record, x.When = e, &e.JobRecord, e.At
		}
		if err != nil {
			return nil, err
		}
	} else if err := walk(ctx, s, args[0], (*inspect.Queue).Each, func(r *inspect.JobRecord, when time.Time, _ float64) bool {
		if r.JID == x.JID {
			x.Record, x.When = r, when
		}
		return x.Record == nil
	}); err != nil {
		return nil, err
	}
	if x.Record == nil {
		return nil, cli.Exitf(cli.NotFound, "no job %s is in %s; troupe explain %s looks everywhere", x.JID, x.Place, words.Word(x.JID))
	}
	return &x, nil
}

// notFound says of a job that is nowhere what was searched, and what was not.
func notFound(jid string, x *explain.Explanation) error {
	var why []string
	for _, r := range x.Why {
		why = append(why, r.Text)
	}
	return cli.Exitf(cli.NotFound, "no job %s was found. %s Searched: %s", jid, strings.Join(why, " "), strings.Join(x.Searched, ", "))
}
