package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/procs"
)

func TestMain(m *testing.M) { procs.Main(m, workerMain) }

// soon is the limit of what should happen at once, on a loaded machine too.
const soon = 30 * time.Second

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
