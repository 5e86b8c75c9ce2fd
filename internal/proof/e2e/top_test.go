package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// terminal is a shell in a tmux of its own.
type terminal struct {
	t     *testing.T
	dir   string
	ended int // programs, so far
}

func newTerminal(t *testing.T, width, height int) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		redistest.Missing(t, err)
	}
	dir, err := os.MkdirTemp("", "troupe-tmux-") //nolint:usetesting // short: there is a socket in it
	harness.OK(t, err)
	term := &terminal{t: t, dir: dir}
	t.Cleanup(func() { _ = term.command("kill-server").Run(); _ = os.RemoveAll(dir) })
	term.do("-f", os.DevNull, "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), "env", "PS1=ready> ", "sh")
	term.await("ready>")
	term.line("stty -g >" + filepath.Join(dir, "before"))
	return term
}

func (term *terminal) command(args ...string) *exec.Cmd {
	ctx := context.WithoutCancel(term.t.Context()) // the clean-up comes after its end
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-u", "-S", filepath.Join(term.dir, "s")}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TERM=xterm-256color")
	return cmd
}

func (term *terminal) do(args ...string) string {
	term.t.Helper()
	out, err := term.command(args...).CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

// keys presses keys by their names in tmux.
func (term *terminal) keys(names ...string) { term.do(append([]string{"send-keys"}, names...)...) }

// line types a line.
func (term *terminal) line(text string) {
	term.do("send-keys", "-l", text)
	term.keys("Enter")
}

// await waits until a text is on the screen, and returns what is.
func (term *terminal) await(text string) (screen string) {
	term.t.Helper()
	if !harness.Within(soon, func() bool { screen = term.do("capture-pane", "-p"); return strings.Contains(screen, text) }) {
		term.t.Fatalf("not within %s: %q in\n%s", soon, text, screen)
	}
	return screen
}

// restored checks that a program has ended with a code and that the terminal is as it was before.
func (term *terminal) restored(code int) {
	term.t.Helper()
	// A program that is ending may still read what is typed.
	if !harness.Within(soon, func() bool { return term.do("display-message", "-p", "#{pane_current_command}") == "sh\n" }) {
		term.t.Fatal("the program has not ended")
	}
	term.ended++
	term.line(fmt.Sprintf("echo exit=$?; stty -g >%s; echo 'en'ded %d", filepath.Join(term.dir, "after"), term.ended))
	screen := term.await(fmt.Sprint("ended ", term.ended))
	if i := strings.LastIndex(screen, "\nexit="); !strings.HasPrefix(screen[i+1:], fmt.Sprintf("exit=%d\n", code)) {
		term.t.Errorf("no exit=%d in\n%s", code, screen)
	}
	var states []string
	for _, name := range []string{"before", "after"} {
		text := harness.Must(os.ReadFile(filepath.Join(term.dir, name)))(term.t)
		states = append(states, string(text))
	}
	if states[0] != states[1] {
		term.t.Errorf("stty before %s, after %s", states[0], states[1])
	}
	if flags := strings.TrimSpace(term.do("display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}")); flags != "0 1 0" {
		term.t.Errorf("alternate screen, cursor, mouse: %s, expected 0 1 0", flags)
	}
}

// fits checks that a screen has a title and no line wider than it is.
func (term *terminal) fits(screen, title string, width int) {
	term.t.Helper()
	if !strings.HasPrefix(screen, title) {
		term.t.Errorf("no %q on top of\n%s", title, screen)
	}
	for line := range strings.Lines(screen) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > width {
			term.t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestTopInATerminal(t *testing.T) {
	path := procs.Command(t)
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer func() { _ = rdb.Close() }()
	for i := range 30 {
		job := fmt.Sprintf(`{"class":"Résumé","args":["日本語"],"jid":"d%d","queue":"default","error_class":"Boom","error_message":"no"}`, i)
		harness.OK(t, rdb.ZAdd(t.Context(), "dead", redis.Z{Score: float64(i), Member: job}).Err())
	}
	term := newTerminal(t, 40, 12)
	term.line(path + " top :dead --redis " + server.URL(0))
	term.fits(term.await("1/30"), "troupe top :dead", 40)
	term.keys("G")
	term.await("30/30")
	term.await("> 2") // days: the row is read
	term.keys("D")
	term.await("delete Résumé d0 of the set dead? y or n"[:30])
	term.keys("y")
	term.await("29/29")

	server.Kill()
	screen := term.await("redis is away since")
	term.fits(screen, "troupe top :dead", 40)
	if !strings.Contains(screen, "Résumé") {
		t.Errorf("what was seen is gone:\n%s", screen)
	}
	term.keys("g")
	term.await("1/29")
	harness.OK(t, server.Restart())
	if !harness.Within(soon, func() bool { return !strings.Contains(term.do("capture-pane", "-p"), "redis is away") }) {
		t.Error("it does not come back")
	}
	term.keys("q")
	term.restored(0)

	pidFile := filepath.Join(term.dir, "pid")
	term.line(fmt.Sprintf("sh -c 'echo $$ >%s; exec %s top :dead --redis %s'", pidFile, path, server.URL(0)))
	term.await("1/29")
	term.do("resize-window", "-x", "80", "-y", "24")
	term.await("Boom: no")
	term.line("") // explains
	term.await("dead since")
	term.line(":overview")
	term.await("No process runs.")
	text := harness.Must(os.ReadFile(pidFile))(t)
	pid := harness.Must(strconv.Atoi(strings.TrimSpace(string(text))))(t)
	process := harness.Must(os.FindProcess(pid))(t)
	harness.OK(t, process.Signal(syscall.SIGTERM))
	term.restored(130)
}

func TestDemoInATerminal(t *testing.T) {
	path := procs.Command(t)
	for _, size := range []struct{ width, height int }{{40, 12}, {100, 30}} {
		term := newTerminal(t, size.width, size.height)
		term.line(path + " demo --timeout 100ms")
		term.fits(term.await("busy Demo"), "troupe demo :tree ", size.width)
		term.line(":processes")
		term.await("running")
		term.keys("C-z")
		term.await("quiet")
		term.keys("C-c")
		term.await("the embedded redis ends")
		term.restored(0)
	}
}
