package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// onlyFlags are files that say nothing: what is looked at is named by a flag.
type onlyFlags struct{ Files }

func (onlyFlags) Redis(url string) (string, error) { return url, nil }

func (onlyFlags) Read(file string) (Settings, error) {
	_, err := os.Stat(file)
	return Settings{}, err
}

// run runs a command with fn, and returns its exit code.
func run(ctx context.Context, t *testing.T, fn func(*Session) error, args ...string) (code int, text string) {
	t.Helper()
	flags := Flags{Files: onlyFlags{}}
	cmd := &cobra.Command{SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error {
		return flags.Run(cmd, func(_ context.Context, s *Session) error { return fn(s) })
	}}
	flags.Add(cmd)
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetIn(strings.NewReader("150\n"))
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	var exit interface{ ExitCode() int }
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		code = Fault
	}
	if err != nil {
		fmt.Fprint(&out, err)
	}
	return code, out.String()
}

func TestExitCodes(t *testing.T) {
	_, url := redistest.New(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		args []string
		code int
		text string
	}{
		{t.Context(), nil, nil, Done, ""},
		{t.Context(), errors.New("boom"), nil, Fault, "boom (redis redis://127.0.0.1:"},
		{t.Context(), fmt.Errorf("x: %w", inspect.ErrNotFound), nil, NotFound, "x: not found"},
		{t.Context(), Exitf(Partly, "some are left"), nil, Partly, "some are left"},
		{ended, errors.New("cut"), nil, Interrupted, ""},
		{t.Context(), nil, []string{"--args", "all"}, Fault, `invalid argument "all" for "--args" flag: expected one of mask, hide, show`},
		{t.Context(), nil, []string{"--redis", "nonsense"}, Fault, "nonsense"},
		{t.Context(), nil, []string{"-C", "missing.yml"}, Fault, "missing.yml"},
	} {
		args := append([]string{"--redis", url}, c.args...)
		if len(c.args) > 0 && c.args[0] == "-C" {
			args = c.args
		}
		code, text := run(c.ctx, t, func(*Session) error { return c.err }, args...)
		if code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%v %v: %d %s, expected %d %s", c.err, c.args, code, text, c.code, c.text)
		}
	}
}

func TestConfirm(t *testing.T) {
	_, url := redistest.New(t)
	for n, want := range map[int64]int{100: Done, 101: Refused} { // the input is no terminal
		if code, text := run(t.Context(), t, func(s *Session) error { return s.Confirm(t.Context(), Ask{N: n, Always: true}, "delete %d jobs", n) }, "--redis", url); code != want {
			t.Errorf("%d: %d %s", n, code, text)
		}
	}
	if code, text := run(t.Context(), t, func(s *Session) error { return s.Confirm(t.Context(), Ask{Yes: true, N: 1e6}, "delete all") }, "--redis", url); code != Done {
		t.Errorf("with --yes: %d %s", code, text)
	}
	if code, text := run(t.Context(), t, func(s *Session) error { return s.Change("deleting") }, "--redis", url, "--read-only"); code != Refused || text != "deleting is refused by --read-only" {
		t.Errorf("%d %s", code, text)
	}
}

func TestTable(t *testing.T) {
	for terminal, want := range map[bool]string{
		false: "a\t\tx y z\n",
		true:  "ONE  TWO  THREE\na    -    x y z\n",
	} {
		var out bytes.Buffer
		s := &Session{Out: &out, Terminal: terminal}
		table := s.Table("ONE", "TWO", "THREE")
		table.Row("a", "", "x\ty\x1bz")
		if err := table.Flush(); err != nil || out.String() != want {
			t.Errorf("%q, %v, expected %q", out.String(), err, want)
		}
	}
}
