package chaos

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

var config = Flags(flag.CommandLine)

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // of go-redis: servers are killed here on purpose
	Child(Troupe())
	os.Exit(m.Run())
}

// Whatever dies, no job is lost, and none runs again without a fault that could
// have hit it. make chaos makes more of it.
func TestChaos(t *testing.T) {
	cfg := *config
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	rep := Run(t, cfg, Troupe())
	Table(os.Stdout, rep)
	if bad := rep.Bad(); bad != "" {
		t.Error(bad)
	}
	for what := range deck {
		if rep.Counts[what] == 0 {
			t.Errorf("no %s has happened", what)
		}
	}
	if l := rep.Limits; l.Jobs == 0 || l.Held == 0 || l.Rested == 0 || l.Most < limitMost || l.InTwo < cfg.rate() {
		t.Errorf("limits: %+v: it has shown nothing", l)
	}
	if rep.Jobs != cfg.Jobs || rep.Extra == 0 || rep.Children == 0 || rep.Callbacks < cfg.Jobs/9 || len(rep.Recovery) == 0 {
		t.Errorf("%d jobs, %d children, %d runs too many, %d recoveries: it has shown nothing", rep.Jobs, rep.Children, rep.Extra, len(rep.Recovery))
	}
}
