package actors_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/test/harness"
)

// The comment of Config has the defaults as they are.
func TestTheCommentOfConfigHasItsDefaults(t *testing.T) {
	var want strings.Builder
	for _, d := range []struct {
		field string
		value any
	}{
		{"Concurrency", limits.Concurrency}, {"Timeout", limits.Timeout}, {"Grace", limits.Grace}, {"Lease", limits.Lease},
		{"Poison.Recoveries", limits.Recoveries}, {"Poison.Within", limits.Window}, {"MaxRetries", limits.Retries},
		{"DeadMax", limits.DeadMax}, {"DeadTimeout", limits.DeadTimeout}, {"PollIntervalPerProcess", limits.PollEach},
		{"HeartbeatInterval", limits.Beat}, {"Capsule.FetchBytes", limits.Bytes},
	} {
		fmt.Fprintf(&want, "//\t%-22s  %v\n", d.field, d.value)
	}
	if text := string(harness.Must(os.ReadFile("config.go"))(t)); !strings.Contains(text, "//\n"+want.String()+"//\n") {
		t.Errorf("the comment of Config lacks, or has otherwise:\n%s", want.String())
	}
}
