package handler

import (
	"os"
	"os/exec"
	"testing"
)

// The scripts hold a fifo open; its end tells that all of their processes are
// gone, zombies or not.
func TestChildrenDieWithAKilledDaemon(t *testing.T) {
	tests := map[string]string{ // as handlers do, they read the job first
		"program":                      `read _; trap '' TERM HUP INT; exec 7>"$FIFO"; echo up >&7; while :; do sleep 0.05; done`,
		"program that has no lifeline": `TROUPE_TEST_CLOSER="$FIFO" exec "$SELF"`,
		"program of a script":          `read _; sh -c 'trap "" TERM HUP INT; exec 7>"$FIFO"; echo up >&7; while :; do sleep 0.05; done'; exit 0`,
		"background of a background":   `read _; (sh -c 'trap "" TERM HUP INT; exec 7>"$FIFO"; echo up >&7; exec sleep 1000' & wait) & wait`,
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			fifo, up, end := pipe(t)
			daemon := exec.CommandContext(t.Context(), os.Args[0])
			daemon.Env = append(os.Environ(), daemonEnv+"="+script, "FIFO="+fifo, "SELF="+os.Args[0])
			if err := daemon.Start(); err != nil {
				t.Fatal(err)
			}
			if got := within(t, up, "start"); got != "up" {
				t.Fatal(got)
			}
			if err := daemon.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = daemon.Wait()
			ends(t, end)
		})
	}
}
