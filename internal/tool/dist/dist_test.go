package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// run runs a command in a folder.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, text)
	}
	return string(text)
}

// checkout makes a repository of the files of this one, as they are now, with one commit.
func checkout(t *testing.T, dir string) {
	t.Helper()
	for path := range strings.SplitSeq(strings.TrimRight(run(t, root, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, path))
		if errors.Is(err, os.ErrNotExist) { // removed, and not yet committed
			continue
		}
		harness.OK(t, err)
		to := filepath.Join(dir, path)
		harness.OK(t, errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, 0o644)))
	}
	const when = "2026-11-24T12:00:00Z"
	who := []string{"GIT_AUTHOR_DATE=" + when, "GIT_COMMITTER_DATE=" + when, "GIT_CONFIG_GLOBAL=/dev/null"}
	for _, args := range [][]string{
		{"init", "-q"}, {"config", "user.name", "x"}, {"config", "user.email", "x@example.com"}, {"config", "core.fileMode", "false"}, {"add", "-A"}, {"commit", "-qm", "all"},
	} {
		run(t, dir, who, "git", args...)
	}
}

// Two people who build the same commit, each in a place of their own, get the same bytes.
func TestAReleaseIsReproducible(t *testing.T) {
	for _, name := range []string{"git", "go"} {
		if _, err := exec.LookPath(name); err != nil {
			redistest.Missing(t, err)
		}
	}
	release := harness.Must(versionOf("../../../internal/beat/version.go"))(t)
	long := os.Getenv("TROUPE_LONG") != ""
	platforms := "linux/" + runtime.GOARCH
	if long {
		platforms = "darwin/amd64,darwin/arm64,linux/amd64,linux/arm64"
	}
	var releases []map[string][]byte
	for i, umask := range []string{"022", "077"} {
		dir := filepath.Join(t.TempDir(), strings.Repeat("deep/", i), "source")
		harness.OK(t, os.MkdirAll(dir, 0o755))
		checkout(t, dir)
		env := []string{"GOFLAGS=-mod=mod -trimpath", fmt.Sprintf("TZ=Etc/GMT+%d", i)}
		if i > 0 && long {
			env = append(env, "GOCACHE="+t.TempDir())
		}
		run(t, dir, env, "sh", "-c", "umask "+umask+" && go run ./internal/tool/dist -platforms "+platforms)
		run(t, filepath.Join(dir, "dist"), nil, "sha256sum", "--check", "--strict", "SHA256SUMS")
		files := map[string][]byte{}
		entries, err := os.ReadDir(filepath.Join(dir, "dist"))
		harness.OK(t, err)
		for _, e := range entries {
			if files[e.Name()], err = os.ReadFile(filepath.Join(dir, "dist", e.Name())); err != nil {
				t.Fatal(err)
			}
		}
		releases = append(releases, files)
	}
	want := []string{"SHA256SUMS"}
	for platform := range strings.SplitSeq(platforms, ",") {
		name := "troupe_" + release + "_" + strings.ReplaceAll(platform, "/", "_")
		want = append(want, name+".cdx.json", name+".tar.gz")
	}
	for _, name := range want {
		first, second := releases[0][name], releases[1][name]
		if len(first) == 0 || !bytes.Equal(first, second) {
			t.Errorf("%s: %d and %d bytes, of SHA-256 %x and %x", name, len(first), len(second), sha256.Sum256(first), sha256.Sum256(second))
		}
	}
	if len(releases[0]) != len(want) {
		t.Errorf("%d files, expected %q", len(releases[0]), want)
	}
	checkArchive(t, releases[0], "troupe_"+release+"_linux_"+runtime.GOARCH)
}

// checkArchive runs the program of an archive, and compares it with its list of materials.
func checkArchive(t *testing.T, files map[string][]byte, name string) {
	t.Helper()
	zip := harness.Must(gzip.NewReader(bytes.NewReader(files[name+".tar.gz"])))(t)
	var inside []string
	var program []byte
	for archive := tar.NewReader(zip); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		harness.OK(t, err)
		if at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC); !h.ModTime.Equal(at) || h.Uid != 0 || h.Uname != "" {
			t.Errorf("%+v", h)
		}
		if inside = append(inside, strings.TrimPrefix(h.Name, name+"/")); inside[len(inside)-1] == "troupe" {
			program, _ = io.ReadAll(archive)
		}
	}
	harness.EqualList(t, "the archive has", inside, []string{"troupe", "CHANGELOG.md", "LICENSE", "README.md", "troupe.service"})
	path := filepath.Join(t.TempDir(), "troupe")
	harness.OK(t, os.WriteFile(path, program, 0o755))
	var version struct {
		Version, Commit, Date, Go string
		Modified                  bool
	}
	harness.OK(t, json.Unmarshal([]byte(run(t, "", nil, path, "version", "--json")), &version))
	if !strings.Contains(name, version.Version) || len(version.Commit) != 40 || version.Modified || version.Date != "2026-11-24T12:00:00Z" || version.Go != runtime.Version() {
		t.Errorf("%+v", version)
	}

	var b struct {
		Format   string `json:"bomFormat"`
		Metadata struct {
			Component struct{ Hashes []struct{ Content string } }
		}
		Components []struct{ Name, Version string }
	}
	harness.OK(t, json.Unmarshal(files[name+".cdx.json"], &b))
	if b.Format != "CycloneDX" || b.Metadata.Component.Hashes[0].Content != fmt.Sprintf("%x", sha256.Sum256(program)) {
		t.Errorf("%+v", b.Metadata)
	}
	var listed []string
	for _, c := range b.Components {
		listed = append(listed, c.Name+"@"+c.Version)
	}
	linked := []string{"std@" + strings.TrimPrefix(runtime.Version(), "go")}
	for line := range strings.Lines(run(t, "", nil, "go", "version", "-m", path)) {
		if f := strings.Fields(line); f[0] == "dep" {
			linked = append(linked, f[1]+"@"+f[2])
		}
	}
	if !slices.Equal(listed, linked) || len(linked) < 20 {
		t.Errorf("listed are %q, linked %q", listed, linked)
	}
}
