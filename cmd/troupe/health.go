package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/config"
	"github.com/troupehq/troupe/internal/console/cli"
)

const (
	defaultOps = "127.0.0.1:9433"
	healthTime = 4 * time.Second // for an answer: less than Docker and Kubernetes give a probe's command
)

func healthCommand() *cobra.Command {
	var flags config.Flags
	var live, ready, startup bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a daemon on this machine whether it works",
		Long: `Health asks the daemon that runs with --ops ADDR whether it lives: whether each of its
actors works or is due to restart. With --ready it asks whether the daemon takes jobs, with
--startup whether it has started. It is for health checks of containers and for scripts: it needs
no Redis, and exits with 0 for yes, 3 for no, with the reasons, and 1 if nobody answers.`,
		Example: "  troupe health\n  troupe health --ready -C /etc/troupe/troupe.yml",
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			name, path := "live", "/livez"
			switch {
			case ready:
				name, path = "ready", "/readyz"
			case startup:
				name, path = "started", "/startupz"
			}
			addr := flags.Ops
			if addr == "" && flags.File != "" {
				settings, err := config.Load(flags, os.Getenv)
				if err != nil {
					return err
				}
				addr = settings.Ops
			}
			addr = reachable(cmp.Or(addr, defaultOps))
			return askHealth(cmd, name, "http://"+addr+path)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&live, "live", false, "does it live? (what is asked without a flag)")
	f.BoolVar(&ready, "ready", false, "does it take jobs?")
	f.BoolVar(&startup, "startup", false, "has it started?")
	f.Var(wordFlag{&flags.Ops, "ADDR"}, "ops", "where the daemon answers (ops: of -C FILE, or "+defaultOps+")")
	f.VarP(wordFlag{&flags.File, "FILE"}, "config", "C", "configuration file of the daemon")
	cmd.MarkFlagsMutuallyExclusive("live", "ready", "startup")
	return cmd
}

// reachable is how an address is reached from here that a daemon listens on.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

func askHealth(cmd *cobra.Command, name, url string) error {
	request, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("--ops: %w", err)
	}
	client := http.Client{Timeout: healthTime, Transport: &http.Transport{DisableKeepAlives: true}} // and no proxy
	reply, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	defer func() { _ = reply.Body.Close() }()
	var answer struct{ Reasons actors.Check }
	switch err := json.NewDecoder(reply.Body).Decode(&answer); {
	case err != nil || reply.StatusCode != http.StatusOK && reply.StatusCode != http.StatusServiceUnavailable:
		return fmt.Errorf("%s answers %s, expected a daemon that runs with --ops", url, reply.Status)
	case reply.StatusCode == http.StatusOK:
		_, err := fmt.Fprintln(cmd.OutOrStdout(), name)
		return err
	}
	why := []error{errors.New("not " + name)}
	for _, r := range answer.Reasons {
		why = append(why, fmt.Errorf("%s: %s", r.Code, r.Text))
	}
	return &cli.ExitError{Code: cli.Partly, Err: errors.Join(why...)}
}
