//go:build !windows

package users

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// A file that others can read is told at the start, and opened.
func TestOthersCanRead(t *testing.T) {
	line, _, err := TokenLine("ci", "viewer", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for mode, warns := range map[os.FileMode]bool{0o600: false, 0o640: true, 0o604: true} {
		path := filepath.Join(t.TempDir(), "users")
		if err := os.WriteFile(path, []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		if _, err := Open(path, zerolog.New(&log), func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "others can read the users file"); got != warns {
			t.Errorf("%v: %s", mode, &log)
		}
	}
}
