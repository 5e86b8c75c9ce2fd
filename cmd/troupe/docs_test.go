package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/internal/test/harness"
)

var update = flag.Bool("update", false, "write docs/cli.md")

const manual = "../../docs/cli.md"

// docs/cli.md is made from the commands: go test ./cmd/troupe -run TestManual -update.
func TestManual(t *testing.T) {
	root := rootCommand()
	root.InitDefaultCompletionCmd()
	var b strings.Builder
	b.WriteString(`# The command line

<!-- Made from the commands: go test ./cmd/troupe -run TestManual -update -->

The commands that look at a Redis take --redis, else REDIS_PROVIDER or REDIS_URL, else
redis://localhost:6379/0. On a terminal they print columns with a head line, into a pipe fields that are
separated by tabs, without one; with --json an object, or one a line for a list.

| exit code | |
|---|---|
| 0 | done |
| 1 | a bad flag, no Redis |
| 2 | what was named, or chosen by a filter to act on, is not there; a list that is empty is no fault |
| 3 | partly done, or unhealthy |
| 4 | refused |
| 70 | troupe run: the supervision tree has given up |
| 130 | interrupted |
`)
	describe(&b, root)
	want := b.String()
	if *update {
		harness.OK(t, os.WriteFile(manual, []byte(want), 0o644))
	}
	got := harness.Must(os.ReadFile(manual))(t)
	if string(got) != want {
		t.Error("docs/cli.md is not what the commands say, expected the output of go test ./cmd/troupe -run TestManual -update")
	}
}

func describe(b *strings.Builder, cmd *cobra.Command) {
	if cmd.HasParent() && cmd.Name() != "help" && cmd.Parent().Name() != "completion" {
		fmt.Fprintf(b, "\n## %s\n\n%s.\n", cmd.CommandPath(), cmd.Short)
		if cmd.Long != "" && cmd.Name() != "completion" {
			fmt.Fprintf(b, "\n```text\n%s\n```\n", strings.TrimSpace(cmd.Long))
		}
		if cmd.Runnable() {
			fmt.Fprintf(b, "\n```text\n%s\n%s```\n", cmd.UseLine(), cmd.LocalFlags().FlagUsages())
		}
		if cmd.Example != "" {
			fmt.Fprintf(b, "\n```sh\n%s\n```\n", strings.TrimSpace(strings.ReplaceAll("\n"+cmd.Example, "\n  ", "\n")))
		}
	}
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			describe(b, c)
		}
	}
}
