package deploy

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// The image has a static program, run by a user without rights on nothing but itself, the certificates
// and its file; it obeys TERM, and HEALTHCHECK tells how it is.
func TestTheImage(t *testing.T) {
	if os.Getuid() != 0 {
		redistest.Missing(t, errors.New("to run a program as another user in a root of its own takes root"))
	}
	all := dockerfile(t)
	binary := program(t)
	f := harness.Must(elf.Open(binary))(t)
	needs, _ := f.ImportedLibraries()
	_ = f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || len(needs) > 0 {
			t.Errorf("the program is not static: %v, needs %q", p.ProgHeader, needs)
		}
	}
	gomod := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))[1]
	if from := all[0].text; !strings.HasPrefix(from, "golang:"+gomod+"-") {
		t.Errorf("the image is built from %q, go.mod has Go %s", from, gomod)
	}

	// the root as the last stage makes it, with a configuration file mounted
	root := t.TempDir()
	harness.OK(t, os.Chmod(root, 0o755))
	put := func(path string, content []byte, mode os.FileMode) {
		t.Helper()
		to := filepath.Join(root, path)
		harness.OK(t, errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, mode)))
	}
	for _, i := range all {
		if !i.last || i.name != "COPY" {
			continue
		}
		from, to, _ := strings.Cut(strings.TrimPrefix(i.text, "--from=build "), " ")
		switch from {
		case "/out/troupe":
			put(to, []byte(read(t, binary)), 0o755)
		default:
			put(to, []byte("of the build stage"), 0o644)
		}
	}
	workdir := one(t, all, "WORKDIR")
	put(filepath.Join(workdir, "troupe.yml"), []byte(read(t, "docker/troupe.yml")), 0o644)
	user := one(t, all, "USER")
	if regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).FindString(user) == "" {
		t.Errorf("USER is %q, expected numbers that are not root's", user)
	}
	_, url := redistest.New(t)
	port := freePort(t)
	command := func(ctx context.Context, args []string, env ...string) *exec.Cmd {
		for i := range args { // of the machine, and not of a container
			args[i] = regexp.MustCompile(`^0\.0\.0\.0:9433$`).ReplaceAllString(args[i], "127.0.0.1:"+port)
		}
		cmd := exec.CommandContext(ctx, "chroot", append([]string{"--userspec=" + user, root}, args...)...)
		cmd.Env = append(env, "REDIS_URL="+url) // and nothing else
		return cmd
	}
	inWorkdir := func(args []string) []string { // WORKDIR, by -C
		return append(args, "-C", filepath.Join(workdir, "troupe.yml"))
	}

	entrypoint := words(t, one(t, all, "ENTRYPOINT"))
	out, err := command(t.Context(), append(entrypoint, "version", "--json")).Output()
	if err != nil || !bytes.Contains(out, []byte(`"commit":"0123456789abcdef"`)) || !bytes.Contains(out, []byte(`"date":"2026-11-24T12:00:00Z"`)) {
		t.Errorf("version: %s, %v", out, err)
	}
	health := append(words(t, one(t, all, "HEALTHCHECK")), "--ops", "127.0.0.1:"+port)
	var exit *exec.ExitError
	if err := command(t.Context(), health).Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("nobody is there, and HEALTHCHECK ends with %v", err)
	}
	daemon := command(t.Context(), inWorkdir(append(entrypoint, words(t, one(t, all, "CMD"))...)))
	var log bytes.Buffer
	daemon.Stderr = &log
	harness.OK(t, daemon.Start())
	harness.Await(t, "healthy", func() bool { return command(t.Context(), append(health, "--startup")).Run() == nil })
	if err := command(t.Context(), health).Run(); err != nil {
		t.Errorf("HEALTHCHECK ends with %v", err)
	}
	owner, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", daemon.Process.Pid))
	if err != nil || !regexp.MustCompile(`(?m)^Uid:\t65532\t65532\t65532\t65532$`).Match(owner) {
		t.Errorf("the daemon is run by another user: %v\n%s", err, owner)
	}
	stop(t, daemon, &log)
	if !strings.HasSuffix(one(t, all, "STOPSIGNAL"), "TERM") {
		t.Error("another signal than TERM")
	}
}

// stop ends a daemon with TERM.
func stop(t *testing.T, cmd *exec.Cmd, log *bytes.Buffer) {
	t.Helper()
	harness.OK(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil || !strings.Contains(log.String(), `"message":"stopped"`) {
		t.Errorf("the daemon ends with %v\n%s", err, log)
	}
}
