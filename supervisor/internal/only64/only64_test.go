package only64

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

const reason = "undefined: the_actor_library_panics_on_32_bit_platforms_build_for_64_bit"

func TestNo32BitPlatformIsBuiltFor(t *testing.T) {
	for _, platform := range []string{"linux/386", "linux/arm", "linux/mips", "linux/mipsle", "windows/386", "freebsd/arm"} {
		if out, err := build(t, platform); err == nil || !strings.Contains(out, reason) {
			t.Errorf("%s: %v\n%s", platform, err, out)
		}
	}
	for _, platform := range []string{"linux/amd64", "linux/arm64", "linux/riscv64", "linux/ppc64le", "linux/s390x", "darwin/arm64", "windows/amd64"} {
		if out, err := build(t, platform); err != nil {
			t.Errorf("%s: %v\n%s", platform, err, out)
		}
	}
}

func build(t *testing.T, platform string) (string, error) {
	t.Helper()
	goos, goarch, _ := strings.Cut(platform, "/")
	cmd := exec.CommandContext(t.Context(), "go", "build", ".")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A package fails to build when one that it imports does: every package that
// links the actor library must import this one, on every platform.
func TestWhoLinksTheActorLibraryRefuses32Bit(t *testing.T) {
	// The test cache does not see what go list reads: looking at all folders here makes it
	// forget the result when a file of the module changes.
	harness.OK(t, filepath.WalkDir("../../..", func(string, fs.DirEntry, error) error { return nil }))
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "github.com/troupehq/troupe/...")
	cmd.Env = append(os.Environ(), "GOARCH=386", "GOOS=linux", "CGO_ENABLED=0")
	out := harness.Must(cmd.Output())(t)
	linked := 0
	for line := range strings.Lines(string(out)) {
		deps := strings.Fields(line)
		actors := slices.Contains(deps, "github.com/asynkron/protoactor-go/actor")
		refuses := slices.Contains(deps, "github.com/troupehq/troupe/supervisor/internal/only64")
		if actors {
			linked++
		}
		if actors && !refuses || deps[0] == "github.com/troupehq/troupe/client" && refuses {
			t.Errorf("%s: links the actor library: %v, refuses 32 bit: %v", deps[0], actors, refuses)
		}
	}
	if linked < 3 {
		t.Errorf("only %d packages link the actor library", linked)
	}
}
