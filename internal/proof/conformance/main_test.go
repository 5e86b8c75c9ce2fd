package conformance

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/procs"
)

func TestMain(m *testing.M) { procs.Main(m, workerMain, binary.finish) }

// soon is the limit of what should happen at once, on a loaded machine too.
const soon = 30 * time.Second

// tail is the end of s, n bytes of it.
func tail(s string, n int) string { return s[max(0, len(s)-n):] }

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func decode(t testing.TB, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}
