package contender

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
)

//go:embed sidekiq.rb
var sidekiqWorker []byte

// sidekiqPeer is Ruby's Sidekiq as Debian ships it, on its own command line.
func sidekiqPeer() Contender {
	return Contender{
		Name: "sidekiq", About: "Ruby's Sidekiq 6.4.1 (Debian), production, logs at warn; loses the jobs of a killed process",
		Slow: true, Missing: rubyMissing, Format: sidekiqFormat, Command: sidekiqCommand,
	}
}

var rubyMissing = sync.OnceValue(func() error {
	if _, err := exec.LookPath("sidekiq"); err != nil {
		return err
	}
	if out, err := exec.CommandContext(context.Background(), "ruby", "-W0", "-rsidekiq", "-e", "0").CombinedOutput(); err != nil {
		return fmt.Errorf("ruby with sidekiq: %w: %s", err, out)
	}
	return nil
})

func sidekiqCommand(w Work) (*exec.Cmd, error) {
	file := filepath.Join(filepath.Dir(w.Progress), "sidekiq.rb")
	if err := os.WriteFile(file, sidekiqWorker, 0o600); err != nil {
		return nil, err
	}
	args := []string{"-r", file, "-e", "production", "-c", strconv.Itoa(w.Concurrency)}
	for _, q := range w.Queues {
		arg := q.Name
		if q.Weight > 0 {
			arg += "," + strconv.Itoa(q.Weight)
		}
		args = append(args, "-q", arg)
	}
	cmd := exec.CommandContext(context.Background(), "sidekiq", args...)
	cmd.Env = append(os.Environ(), "REDIS_URL=redis://"+w.Redis+"/0", "TROUPE_BENCH_PROGRESS="+w.Progress,
		"TROUPE_BENCH_FAIL="+strconv.FormatBool(w.Fail), "RUBYOPT=-W0")
	return cmd, nil
}
