package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit/chaos"
)

// troupeCmd runs the troupe command.
func troupeCmd(t testing.TB, env []string, args ...string) *chaos.Process {
	t.Helper()
	path := harness.Must(binary())(t)
	cmd := exec.CommandContext(context.Background(), path, args...)
	cmd.Dir = t.TempDir()
	return chaos.Launch(t, "troupe "+args[0], cmd, env...)
}

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
	return troupeCmd(t, nil, append([]string{"run", "-C", file, "--redis", url}, flags...)...)
}
