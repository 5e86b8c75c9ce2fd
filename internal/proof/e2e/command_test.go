package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/testkit/chaos"
)

// daemon runs "troupe run" with a configuration file and waits until it runs.
func daemon(t testing.TB, url, config string, flags ...string) *chaos.Process {
	t.Helper()
	p := daemonSoon(t, url, config, flags...)
	p.Ready()
	return p
}

func daemonSoon(t testing.TB, url, config string, flags ...string) *chaos.Process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "troupe.yml")
	harness.OK(t, os.WriteFile(file, []byte(config), 0o600))
	return procs.Troupe(t, nil, append([]string{"run", "-C", file, "--redis", url}, flags...)...)
}
