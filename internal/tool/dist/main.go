// Command dist makes a release: for each platform a static program in an archive and a list of
// what it is made of (CycloneDX), and the checksums of all. Everything is a function of the commit
// and the version of Go: whoever builds it again gets the same bytes.
//
//	go run ./internal/tool/dist [-out dist] [-platforms linux/amd64,darwin/arm64]
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// packed are the files beside the program in an archive.
var packed = []string{"CHANGELOG.md", "LICENSE", "README.md", "deploy/systemd/troupe.service"}

func main() {
	out := flag.String("out", "dist", "where the files are written to")
	platforms := flag.String("platforms", "darwin/amd64,darwin/arm64,linux/amd64,linux/arm64", "what to build for")
	flag.Parse()
	if err := release(context.Background(), *out, strings.Split(*platforms, ",")); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// release writes the files of a release. The working directory is the module's.
func release(ctx context.Context, out string, platforms []string) error {
	if changes, err := output(ctx, "git", "status", "--porcelain"); err != nil || changes != "" {
		return fmt.Errorf("the working tree has changes, expected a commit: %w\n%s", err, changes)
	}
	unix, err := output(ctx, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(unix, 10, 64)
	if err != nil {
		return err
	}
	version, err := versionOf("internal/beat/version.go")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "dist")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	var sums []string
	save := func(name string, content []byte) error {
		sums = append(sums, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name))
		return os.WriteFile(filepath.Join(out, name), content, 0o644)
	}
	for _, platform := range platforms {
		name := "troupe_" + version + "_" + strings.ReplaceAll(platform, "/", "_")
		program := filepath.Join(work, name)
		if err := build(ctx, program, platform); err != nil {
			return err
		}
		archive, err := pack(name, program, time.Unix(seconds, 0))
		if err != nil {
			return err
		}
		bom, err := billOfMaterials(program, version, time.Unix(seconds, 0))
		if err != nil {
			return err
		}
		if err := save(name+".tar.gz", archive); err != nil {
			return err
		}
		if err := save(name+".cdx.json", bom); err != nil {
			return err
		}
	}
	slices.SortFunc(sums, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(strings.Join(sums, "")), 0o644)
}

// versionOf reads the constant actors.Version: to import that package would link all of it.
func versionOf(file string) (string, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`(?m)^const Version = "([0-9.]+)"$`).FindSubmatch(source)
	if m == nil {
		return "", fmt.Errorf("%s has no constant Version, expected one such as 0.1.0", file)
	}
	return string(m[1]), nil
}

// build makes the program of a platform, whatever the environment says of builds.
func build(ctx context.Context, program, platform string) error {
	system, architecture, ok := strings.Cut(platform, "/")
	if !ok {
		return fmt.Errorf("platform is %q, expected one such as linux/amd64", platform)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", program, "./cmd/troupe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+architecture, "GOFLAGS=", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build for %s: %w\n%s", platform, err, text)
	}
	return nil
}

// pack makes the archive: names, owners and times are the same for everybody.
func pack(name, program string, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	archive := tar.NewWriter(zip)
	add := func(from, as string, mode int64) error {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{Name: name + "/" + as, Mode: mode, Size: int64(len(content)), ModTime: at, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	}
	if err := add(program, "troupe", 0o755); err != nil {
		return nil, err
	}
	for _, file := range packed {
		if err := add(file, filepath.Base(file), 0o644); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	err := zip.Close()
	return b.Bytes(), err
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	text, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, text)
	}
	return strings.TrimSpace(string(text)), nil
}
