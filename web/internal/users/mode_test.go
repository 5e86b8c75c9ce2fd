//go:build !windows

package users

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/test/harness"
)

// A file that others can read is told at the start, and opened.
func TestOthersCanRead(t *testing.T) {
	line, _, err := TokenLine("ci", "viewer", time.Time{})
	harness.OK(t, err)
	for mode, warns := range map[os.FileMode]bool{0o600: false, 0o640: true, 0o604: true} {
		path := filepath.Join(t.TempDir(), "users")
		harness.OK(t, os.WriteFile(path, []byte(line+"\n"), 0o600))
		harness.OK(t, os.Chmod(path, mode))
		var log strings.Builder
		harness.Must(Open(path, zerolog.New(&log), func(string) error { return nil }))(t)
		if got := strings.Contains(log.String(), "others can read the users file"); got != warns {
			t.Errorf("%v: %s", mode, &log)
		}
	}
}
