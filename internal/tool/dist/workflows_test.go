package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const root = "../../.."

type workflow struct {
	On struct {
		Push struct{ Branches, Tags []string }
	}
	Jobs map[string]struct {
		Steps []struct{ Name, Run string }
	}
}

// steps are the commands of a workflow, in order.
func (w workflow) steps() (all []string) {
	for _, job := range w.Jobs {
		for _, s := range job.Steps {
			all = append(all, s.Run)
		}
	}
	return all
}

func workflowOf(t *testing.T, name string) (w workflow) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".github/workflows", name))
	if err == nil {
		err = yaml.Unmarshal(text, &w)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Each push runs what CI runs, each tag of a version makes its release.
func TestWorkflows(t *testing.T) {
	if ci := workflowOf(t, "ci.yml"); !slices.Equal(ci.On.Push.Branches, []string{"**"}) || !slices.Contains(ci.steps(), ".ci/run") {
		t.Errorf("ci.yml does not run .ci/run on each push: %+v", ci)
	}
	if r := workflowOf(t, "release.yml"); !slices.Equal(r.On.Push.Tags, []string{"v*"}) || !slices.Contains(r.steps(), "make dist") {
		t.Errorf("release.yml does not run make dist on each tag: %+v", r)
	}
}

// The steps of the release around make dist: the tag must name the version, and the changelog has a
// section for it.
func TestAReleaseIsOfTheVersionThatItsTagNames(t *testing.T) {
	version, err := versionOf(filepath.Join(root, "internal/beat/version.go"))
	if err != nil {
		t.Fatal(err)
	}
	var checks []string
	for _, step := range workflowOf(t, "release.yml").steps() {
		if strings.Contains(step, "GITHUB_REF_NAME") && !strings.Contains(step, "gh release") {
			checks = append(checks, step)
		}
	}
	if len(checks) != 2 {
		t.Fatalf("%d checks, expected 2: %q", len(checks), checks)
	}
	for _, tag := range []struct {
		name string
		good bool
	}{{"v" + version, true}, {"v99.0.0", false}} {
		for _, check := range checks {
			temp := t.TempDir()
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", check)
			cmd.Dir, cmd.Env = root, append(os.Environ(), "GITHUB_REF_NAME="+tag.name, "RUNNER_TEMP="+temp)
			out, err := cmd.CombinedOutput()
			if (err == nil) != tag.good {
				t.Errorf("%s with the tag %s: %v\n%s", check, tag.name, err, out)
			}
			if notes, err := os.ReadFile(filepath.Join(temp, "notes.md")); err == nil && tag.good && !strings.Contains(string(notes), "### ") {
				t.Errorf("the notes of %s:\n%s", tag.name, notes)
			}
		}
	}
}
