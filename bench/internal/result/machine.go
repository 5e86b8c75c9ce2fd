package result

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Machine says where and with what a set was measured.
type Machine struct {
	Date     string   `json:"date"`
	CPU      string   `json:"cpu"`
	Cores    int      `json:"cores"`
	Kernel   string   `json:"kernel"`
	Versions []string `json:"versions"`
	Load     string   `json:"load_average"` // before the first measurement
}

func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores of %s, %s, load %s\n%s", m.Date, m.Cores, m.CPU, m.Kernel, m.Load, strings.Join(m.Versions, ", "))
}

// modules whose versions are told.
var modules = map[string]bool{
	"github.com/redis/go-redis/v9":        true,
	"github.com/asynkron/protoactor-go":   true,
	"github.com/hibiken/asynq":            true,
	"github.com/jrallison/go-workers":     true,
	"github.com/digitalocean/go-workers2": true,
	"github.com/gocraft/work":             true,
	"github.com/riverqueue/river":         true,
	"github.com/jackc/pgx/v5":             true,
	"github.com/rs/zerolog":               true,
}

// ThisMachine looks around.
func ThisMachine(ctx context.Context) Machine {
	m := Machine{
		Date: time.Now().UTC().Format("2006-01-02 15:04 MST"), Cores: runtime.NumCPU(), CPU: "an unknown processor",
		Versions: []string{runtime.Version()},
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range bytes.Lines(text) {
			if name, ok := bytes.CutPrefix(line, []byte("model name")); ok {
				m.CPU = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(string(name)), ":"))
				break
			}
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = "Linux " + strings.TrimSpace(string(text))
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(text))[:3], " ")
	}
	if commit := firstLine(ctx, "git", "rev-parse", "--short=12", "HEAD"); commit != "" {
		if firstLine(ctx, "git", "status", "--porcelain", "--", ":/*.go") != "" {
			commit += " with changes"
		}
		m.Versions = append(m.Versions, "troupe "+commit)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if modules[d.Path] {
				m.Versions = append(m.Versions, d.Path+" "+d.Version)
			}
		}
	}
	postgres, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	for _, cmd := range append([][]string{
		{"redis-server", "--version"}, {"ruby", "--version"}, {"sidekiq", "--version"},
	}, pairs(postgres)...) {
		if line := firstLine(ctx, cmd...); line != "" {
			m.Versions = append(m.Versions, line)
		}
	}
	return m
}

func pairs(programs []string) (cmds [][]string) {
	for _, p := range programs {
		cmds = append(cmds, []string{p, "--version"})
	}
	return cmds
}

// firstLine is the first line of the output of a command; "" if there is no such command.
func firstLine(ctx context.Context, cmd ...string) string {
	out, err := exec.CommandContext(ctx, cmd[0], cmd[1:]...).Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	line, _, _ = strings.Cut(line, " sha=") // redis-server tells more than anybody wants to know
	return strings.TrimSpace(line)
}
