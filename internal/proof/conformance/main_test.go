package conformance

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestMain runs the tests or, in a process that a test has started from this
// binary, the Go worker.
func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // of go-redis: servers are killed here on purpose
	if spec := os.Getenv(workerEnv); spec != "" {
		os.Exit(workerMain(spec))
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // they wait for other processes most of the time
	code := m.Run()
	binary.finish()
	os.Exit(code)
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

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
