package job_test

import (
	"regexp"
	"testing"

	"github.com/troupehq/troupe/internal/job"
)

func TestNewJID(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{24}$`)
	seen := make(map[string]bool)
	for range 1000 {
		id := job.NewID()
		if !form.MatchString(id) || seen[id] {
			t.Fatalf("jid %q", id)
		}
		seen[id] = true
	}
}
