package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/internal/console/audit"
	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/internal/words"
)

// What an entry of the audit has at most.
const (
	auditTime = 2 * time.Second // that Redis may take
	mostText  = 400             // bytes
)

// About passes to the audit what a command is about: the address that this has on the dashboard, and the
// jobs that are named.
func (s *Session) About(path []string, jobs ...string) {
	s.did.Path = ""
	for _, part := range path {
		s.did.Path += "/" + url.PathEscape(part)
	}
	s.did.Path, s.did.Jobs = words.Short(s.did.Path, mostText), slices.Clone(jobs[:min(len(jobs), audit.MostJobs)])
}

// Told passes to the audit what the command has said, and its counts.
func (s *Session) Told(text string, counts any) {
	if s.did.Text = strings.TrimPrefix(s.did.Text+"; "+text, "; "); counts != nil {
		s.did.Counts, _ = json.Marshal(counts) // plain data
	}
}

// audited masks what the audit has: others read it than who has typed that.
var audited = mask.New(mask.Mask, nil, nil)

// unspoken are the flags that the audit leaves out: they do not change what is done.
var unspoken = []string{"json", "args", "no-color", "read-only", "config", "redis", "as", "yes", "rate", "wait"}

// audit writes what a command has changed, or tried to, into the audit. It comes after the deed, so that
// a Redis that takes no entry refuses nothing: that the entry is missing is told.
func (s *Session) audit(ctx context.Context, cmd *cobra.Command, err error) {
	e := s.did
	e.Via, e.Action, e.Outcome, e.Filter = audit.Command, strings.TrimPrefix(cmd.CommandPath(), "troupe "), "done", map[string]string{}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(unspoken, f.Name) {
			e.Filter[f.Name] = words.Short(audited.Typed(f.Name, f.Value.String(), s.Args == mask.Show), mostText)
		}
	})
	if err != nil {
		exit, ok := errors.AsType[*ExitError](err)
		switch {
		case ok && (exit.Code == NotFound || exit.Code == Fault): // there was nothing to do
			return
		case ok && exit.Code == Refused:
			e.Outcome = "refused"
		case ok && exit.Code == Partly, ctx.Err() != nil:
			e.Outcome = "warning"
		default:
			e.Outcome = "failed"
		}
		if text := err.Error(); text != "" {
			e.Text = strings.TrimPrefix(e.Text+"; "+text, "; ")
		}
	}
	if err := s.Audit(ctx, &e); err != nil {
		_, _ = fmt.Fprintf(s.Err, "troupe: warning: this is not in the audit: %s\n", Line(err.Error()))
	}
}

// Audit completes an entry with who does it, when and where, and writes it.
func (s *Session) Audit(ctx context.Context, e *audit.Entry) error {
	e.At, e.User, e.Text = time.Now().UTC(), words.Short(cmp.Or(s.As, systemUser()), mostText), words.Short(e.Text, mostText)
	e.Address, _ = os.Hostname()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTime)
	defer cancel()
	return audit.Add(ctx, s.Redis, e, false)
}

// systemUser is the name of the user of the system, or its number.
func systemUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return cmp.Or(os.Getenv("USER"), "uid "+strconv.Itoa(os.Getuid()))
}
