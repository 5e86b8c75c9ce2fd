package operate

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// The command tells where the dashboard is, serves it under its path, and ends in good order.
func TestWeb(t *testing.T) {
	_, redis := redistest.New(t)
	out, in := io.Pipe()
	cmd := webCommand(given{})
	cmd.SetOut(in)
	cmd.SetArgs([]string{"--redis", redis, "--listen", "127.0.0.1:0", "--base-path", "/jobs", "--read-only"})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.ExecuteContext(ctx)
		_ = in.Close()
	}()
	told := make([]byte, 1000)
	n, err := out.Read(told)
	line := regexp.MustCompile(`^the dashboard of redis://\S+ is at (http://127\.0\.0\.1:\d+/jobs/)\n$`).FindStringSubmatch(string(told[:n]))
	if err != nil || line == nil {
		t.Fatalf("%q, %v", told[:n], err)
	}
	url := line[1]
	r := harness.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url+"queues", nil))(t)
	answer := harness.Must(http.DefaultClient.Do(r))(t)
	defer func() { _ = answer.Body.Close() }()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text), "read-only") {
		t.Errorf("%d %s %v", answer.StatusCode, text, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("after a stop: %v", err)
	}
}

// given takes the Redis of the flag.
type given struct{ cli.Files }

func (given) Redis(url string) (string, error) { return url, nil }
