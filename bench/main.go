// Command bench measures troupe beside other job systems and beside what can be
// had by hand, on a Redis and a PostgreSQL that it starts itself. It is a module
// of its own, so that nobody who uses troupe gets its dependencies. Linux only.
//
//	bench [flags] [scenario ...]   measure, print a table, write results.json
//	bench report [flags]           write tables and plots into the docs
//	bench list                     name the scenarios and contenders
//
// Every worker is a process of its own and is watched from outside: its
// processor time and memory by the kernel, Redis by INFO, jobs by a file that
// both map into memory. Contenders take turns in every round.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/troupehq/troupe/bench/internal/contender"
	"github.com/troupehq/troupe/bench/internal/report"
	"github.com/troupehq/troupe/bench/internal/result"
	"github.com/troupehq/troupe/bench/internal/scenario"
)

func main() {
	contender.Child()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "list":
			list(out)
			return nil
		case "report":
			return reportCommand(args[1:], out)
		}
	}
	return measure(ctx, args, out, log)
}

func measure(ctx context.Context, args []string, out, log io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	short := flags.Bool("short", false, "small numbers: everything runs, the figures mean nothing")
	rounds := flags.Int("rounds", 0, "rounds of each measurement; 0 means 5, or 1 if short")
	jobs := flags.Int("jobs", 0, "jobs of a drain; 0 means 250,000")
	slow := flags.Int("slow-jobs", 0, "jobs of a drain by a contender below 50,000 a second; 0 means 50,000")
	only := flags.String("only", "", "contenders that take part, with commas between; \"\" means all")
	file := flags.String("o", "results.json", "file for the results; \"\" means none")
	if err := flags.Parse(args); err != nil {
		return err
	}
	size := scenario.Full()
	if *short {
		size = scenario.Short()
	}
	for field, value := range map[*int]int{&size.Rounds: *rounds, &size.Jobs: *jobs, &size.SlowJobs: *slow} {
		if value > 0 {
			*field = value
		}
	}
	chosen, err := choose(flags.Args())
	if err != nil {
		return err
	}
	lab, err := scenario.NewLab(ctx, size, log)
	if err != nil {
		return err
	}
	defer lab.Close()
	if *only != "" {
		for name := range strings.SplitSeq(*only, ",") {
			if _, err := contender.Find(name); err != nil {
				return err
			}
			lab.Only = append(lab.Only, name)
		}
	}
	for _, s := range chosen {
		if err := s.Run(ctx, lab); err != nil {
			return err
		}
	}
	lab.Set.WriteText(out)
	if *file == "" {
		return nil
	}
	return lab.Set.Write(*file)
}

// choose returns the scenarios of these names, all if there are none.
func choose(names []string) (chosen []scenario.Scenario, err error) {
	all := scenario.All()
	for _, s := range all {
		if len(names) == 0 || slices.Contains(names, s.Name) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(s scenario.Scenario) bool { return s.Name == name }) {
			err = errors.Join(err, fmt.Errorf("no scenario %q; see bench list", name))
		}
	}
	return chosen, err
}

func list(out io.Writer) {
	for _, s := range scenario.All() {
		_, _ = fmt.Fprintf(out, "%-12s %s\n", s.Name, s.About)
	}
	_, _ = fmt.Fprintln(out)
	for _, c := range contender.All() {
		_, _ = fmt.Fprintf(out, "%-12s %s\n", c.Name, c.About)
	}
}

func reportCommand(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench report", flag.ContinueOnError)
	flags.SetOutput(out)
	file := flags.String("i", "results.json", "file with the results")
	page := flags.String("page", "../docs/performance.md", "page whose part between the markers is written anew")
	plots := flags.String("plots", "../docs/plots", "directory for the plots")
	if err := flags.Parse(args); err != nil {
		return err
	}
	set, err := result.Load(*file)
	if err != nil {
		return err
	}
	return report.Write(set, *page, *plots)
}
