package troupe

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a program links with this module does not grow unseen. testdata/weight has two programs, one that
// pushes and one with a daemon, and beside each what it links: its modules, which must be those, and its
// packages outside of the standard library and its bytes, which may be 5 % more. To write them anew:
// TROUPE_UPDATE=1 go test -run TestWeight .
func TestWeight(t *testing.T) {
	lookAtAllFiles(t)
	count := map[string]int{}
	for _, program := range []string{"pusher", "daemon"} {
		golden := filepath.Join("testdata", "weight", program+".txt")
		modules, packages, size := weigh(t, program)
		count[program] = len(modules)
		if os.Getenv("TROUPE_UPDATE") != "" {
			text := fmt.Sprintf("packages %d\nbytes %d\n\n%s\n", packages, size, strings.Join(modules, "\n"))
			if err := os.WriteFile(golden, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		raw, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		numbers, list, _ := strings.Cut(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n\n")
		var wasPackages int
		var wasSize int64
		if _, err := fmt.Sscanf(numbers, "packages %d\nbytes %d", &wasPackages, &wasSize); err != nil {
			t.Fatalf("%s: %v", golden, err)
		}
		if was := strings.Fields(list); !slices.Equal(modules, was) {
			t.Errorf("the %s links the modules\n%s\n%s has\n%s", program, strings.Join(modules, "\n"), golden, strings.Join(was, "\n"))
		}
		if packages > wasPackages*105/100 {
			t.Errorf("the %s links %d packages, %s has %d", program, packages, golden, wasPackages)
		}
		if size > wasSize*105/100 {
			t.Errorf("the %s has %d bytes, %s has %d", program, size, golden, wasSize)
		}
		t.Logf("%s: %d modules, %d packages, %d bytes", program, len(modules), packages, size)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if row := fmt.Sprintf("| A Go worker links | %d modules, a pusher %d |", count["daemon"], count["pusher"]); !bytes.Contains(readme, []byte(row)) {
		t.Errorf("README.md has no row %q", row)
	}
}

// weigh builds a program of testdata/weight for one platform, stripped, and tells what is in it.
func weigh(t *testing.T, program string) (modules []string, packages int, size int64) {
	t.Helper()
	source := "./testdata/weight/" + program
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=-trimpath")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
		}
		return string(out)
	}
	for line := range strings.Lines(run("list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", source)) {
		if path := strings.TrimSpace(line); path != "" {
			modules = append(modules, path)
		}
	}
	packages = len(modules) - 1 // without the program itself
	slices.Sort(modules)
	modules = slices.Compact(modules)
	binary := filepath.Join(t.TempDir(), program)
	run("build", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, source)
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	return modules, packages, info.Size()
}
