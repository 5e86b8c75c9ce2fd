package operate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/web"
)

const wantExpires = "expected never, days like 90d, a duration like 12h, or a time like 2026-12-31T00:00:00Z"

func webUserCommand() *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use: "user NAME --role ROLE", Short: "Print a line of a users file for somebody who signs in with a password", Args: cli.Args(1, 1),
		Long: `User asks for a password, or reads it from the first line of the standard input, and prints a line
of a users file for "troupe web --users". The line has a hash of the password. The file is to be
read by the dashboard alone. A running dashboard reads it again when it changes.`,
		Example: "  troupe web user ann --role admin >>users",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := web.ParseRole(role)
			if err != nil {
				return fmt.Errorf("--%w", err)
			}
			password, err := readPassword(cmd)
			if err != nil {
				return err
			}
			line, err := web.UserLine(args[0], r, password)
			if err == nil {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), line)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "viewer, operator or admin")
	return cmd
}

func readPassword(cmd *cobra.Command) (string, error) {
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return strings.TrimRight(line, "\r\n"), err
	}
	var last []byte
	for _, what := range []string{"Password: ", "Again: "} {
		_, _ = fmt.Fprint(cmd.ErrOrStderr(), what)
		text, err := term.ReadPassword(int(in.Fd()))
		_, _ = fmt.Fprintln(cmd.ErrOrStderr())
		if err != nil {
			return "", err
		}
		if last != nil && string(last) != string(text) {
			return "", errors.New("the two passwords differ, expected the same twice")
		}
		last = text
	}
	return string(last), nil
}

func webTokenCommand() *cobra.Command {
	var role, expires string
	cmd := &cobra.Command{
		Use: "token NAME --role ROLE", Short: "Make a token for a program, and print its line of a users file", Args: cli.Args(1, 1),
		Long: `Token makes a token that a program sends as "Authorization: Bearer TOKEN". It prints the token on the
standard error, once, and the line of a users file for it, which has a digest of it.`,
		Example: "  troupe web token ci --role operator --expires 90d >>users",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := web.ParseRole(role)
			if err != nil {
				return fmt.Errorf("--%w", err)
			}
			end, err := parseExpires(expires, time.Now())
			if err != nil {
				return err
			}
			line, token, err := web.TokenLine(args[0], r, end)
			if err == nil {
				_, _ = fmt.Fprintln(cmd.ErrOrStderr(), token)
				_, err = fmt.Fprintln(cmd.OutOrStdout(), line)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "viewer, operator or admin")
	cmd.Flags().StringVar(&expires, "expires", "90d", "when its time is over: never, 90d, 12h, or a time")
	return cmd
}

func parseExpires(text string, now time.Time) (time.Time, error) {
	if text == "never" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil && t.After(now) {
		return t, nil
	}
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, daysErr := strconv.Atoi(days)
		d, err = time.Duration(min(n, 36500))*24*time.Hour, daysErr
	}
	if err != nil || d <= 0 {
		return time.Time{}, fmt.Errorf("--expires is %q, %s", text, wantExpires)
	}
	return now.Add(d), nil
}
