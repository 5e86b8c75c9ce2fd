//go:build unix

package handler

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/test/harness"
)

// variables runs a job by the program env and returns what that prints.
func variables(t *testing.T, payload string, env ...string) map[string]string {
	t.Helper()
	log := &harness.Buffer{}
	h := harness.Must(newExec([]string{"env"}, 0, zerolog.New(log), env...))(t)
	harness.OK(t, h.Perform(t.Context(), job(payload)))
	vars := map[string]string{}
	for _, r := range log.Lines(t) {
		name, value, _ := strings.Cut(r["line"].(string), "=")
		vars[name] = value
	}
	return vars
}

func TestExecPassesFewVariables(t *testing.T) {
	t.Setenv("REDIS_URL", "redis://:hunter2@h/0")
	t.Setenv("HOOK_SECRET", "hunter2")
	t.Setenv("TROUPE_TEST_LISTED", "listed")
	t.Setenv("TROUPE_JID", "the daemon's")
	want := map[string]string{
		"TROUPE_JID": "b4a577edbccf1d805744efa9", "TROUPE_CLASS": "ThumbnailJob", "TROUPE_QUEUE": "old", "TROUPE_ATTEMPT": "4",
		"TROUPE_TEST_LISTED": "listed", "PATH": os.Getenv("PATH"),
	}
	for _, name := range []string{"HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_TIME", "TZ", "TMPDIR"} {
		t.Setenv(name, "/"+name)
		want[name] = "/" + name
	}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "LC_") && want[name] == "" {
			t.Setenv(name, "x")
			want[name] = "x"
		}
	}
	got := variables(t, sample, "TROUPE_TEST_LISTED", "TROUPE_TEST_NOT_SET", "TROUPE_JID")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("- want + got:\n%s", diff)
	}
}

func TestNewExecRefusesOddNames(t *testing.T) {
	for _, name := range []string{"", "A=hunter2", "A B", "A\x00", "LC_*"} {
		if _, err := newExec([]string{"env"}, 0, zerolog.Nop(), "A", name); err == nil {
			t.Errorf("%q accepted", name)
		}
	}
}

// The manual names what every program gets.
func TestManualHasEveryInheritedVariable(t *testing.T) {
	text := harness.Must(os.ReadFile("../docs/handlers.md"))(t)
	for _, name := range append([]string{"LC_*"}, inherited...) {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("no %s", name)
		}
	}
}

func TestExecEscapesWhatComesFromTheJob(t *testing.T) {
	got := variables(t, `{"class":"A\tB\u007f","jid":"1\n2\r%\u0085é\u0001 ","queue":"\u001b[31m"}`)
	for name, want := range map[string]string{"TROUPE_JID": "1%0A2%0D%25%C2%85é%01 ", "TROUPE_CLASS": "A%09B%7F", "TROUPE_QUEUE": "%1B[31m"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

// What no environment can hold is dead, and not tried 25 times.
func TestExecKillsAJobThatNoEnvironmentCanHold(t *testing.T) {
	h := harness.Must(newExec([]string{"true"}, 0, zerolog.Nop()))(t)
	most := 128<<10 - len("TROUPE_JID=\x00")
	for _, tt := range []struct{ payload, message string }{
		{`{"class":"A","jid":"` + strings.Repeat("x", most) + `"}`, ""},
		{`{"class":"A","jid":"` + strings.Repeat("x", most+1) + `"}`, `jid is "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", expected at most 131060 bytes, but it has 131061`},
		{`{"class":"A","jid":"` + strings.Repeat("\\n", most/3+1) + `"}`, `jid is "`},
		{`{"class":"` + strings.Repeat("é", 100_000) + `","jid":"1"}`, `class is "`},
		{`{"class":"A","jid":"a\u0000b"}`, `jid is "a\x00b", expected text without NUL`},
		{`{"class":"A\u0000","jid":"1"}`, `class is "A\x00", expected text without NUL`},
		{`{"class":"A","jid":"1","queue":"\u0000"}`, `queue is "\x00", expected text without NUL`},
	} {
		err := h.Perform(t.Context(), job(tt.payload))
		if tt.message == "" {
			harness.Check(t, err)
			continue
		}
		o, ok := errors.AsType[*troupe.OutcomeError](err)
		if !ok || !o.Kill || troupe.ErrorClass(err) != "not started" || !strings.HasPrefix(err.Error(), tt.message) || len(err.Error()) > 300 {
			t.Errorf("%v, class %q, want to be killed with %s", err, troupe.ErrorClass(err), tt.message)
		}
	}
}
