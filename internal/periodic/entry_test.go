package periodic

import (
	"strings"
	"testing"
	"time"
)

// To fugit "every 90m" is each hour: such an entry of Ruby's is left to Ruby, and ours, which fugit
// refuses as it stands in Redis, is not.
func TestAnIntervalThatRubyReadsOtherwiseIsRubys(t *testing.T) {
	known := func(string) bool { return true }
	for _, tt := range []struct {
		line, own string
		ruby      bool
	}{
		{"every 90 minutes", "", true},
		{"every 15 minutes", "", false},
		{"@every 1h30m0s", "{}", false},
	} {
		fields := map[string]string{"name": "n", "klass": "A", "cron": tt.line, "status": "enabled", "message": `{"class":"A","args":[],"queue":"q","retry":true}`}
		if tt.own != "" {
			fields["troupe"] = tt.own
		}
		e := parse("cron_job:default:n", "default", fields, "", time.UTC, known)
		if e.Fault != nil || strings.Contains(e.Ruby, "interval") != tt.ruby {
			t.Errorf("%s: left to Ruby: %q, fault %v, want it left: %t", tt.line, e.Ruby, e.Fault, tt.ruby)
		}
	}
}
