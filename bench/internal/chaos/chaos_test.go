package chaos

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/proof/chaos"
)

var (
	config = chaos.Flags(flag.CommandLine)
	beside = flag.Bool("chaos.beside", false, "run troupe and asynq, and print a table; takes some minutes")
)

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // of go-redis: servers are killed here on purpose
	chaos.Child(chaos.Troupe(), Asynq())
	os.Exit(m.Run())
}

// The same load and the same faults, by one seed, for troupe and for asynq. What
// asynq loses is in the table and no failure of this project.
func TestChaos(t *testing.T) {
	if !*beside {
		t.Skip("make chaos PEER=asynq runs it")
	}
	cfg := *config
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	var reports []*chaos.Report
	t.Run("run", func(t *testing.T) {
		for _, s := range []chaos.System{chaos.Troupe(), Asynq()} {
			t.Run(s.Name, func(t *testing.T) { reports = append(reports, chaos.Run(t, cfg, s)) })
		}
	})
	chaos.Table(os.Stdout, reports...)
	if bad := reports[0].Bad(); bad != "" {
		t.Error(bad)
	}
}
