package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/internal/console/cli"

	"github.com/troupehq/troupe/actors"
)

// Where the build has no repository, as from a source archive: -ldflags "-X main.commit=… -X main.date=…".
var commit, date string

// build is what this program was made of.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`   // "" if it is not known
	Modified bool   `json:"modified"` // there were changes beside the commit
	Date     string `json:"date"`     // of the commit, so that two builds are the same
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: actors.Version, Commit: commit, Date: date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = cmp.Or(b.Commit, s.Value)
		case "vcs.time":
			b.Date = cmp.Or(b.Date, s.Value)
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and what it was built of",
		Args:  cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, out := thisBuild(), cmd.OutOrStdout()
			if asJSON {
				return json.NewEncoder(out).Encode(b)
			}
			at := cmp.Or(b.Commit, "unknown")
			if b.Modified {
				at += ", with changes"
			}
			_, err := fmt.Fprintf(out, "troupe %s\ncommit %s\ndate   %s\ngo     %s %s\n", b.Version, at, cmp.Or(b.Date, "unknown"), b.Go, b.Platform)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// printVersion is the flag -V.
func printVersion(cmd *cobra.Command) error {
	_, err := fmt.Fprintln(cmd.OutOrStdout(), "troupe "+actors.Version)
	return err
}
