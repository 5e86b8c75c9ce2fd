package redistest

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// sidekiqMissing tells why Ruby's Sidekiq cannot be used; asked once.
var sidekiqMissing = sync.OnceValue(func() error {
	if _, err := exec.LookPath("sidekiq"); err != nil {
		return err
	}
	if out, err := exec.CommandContext(context.Background(), "ruby", "-W0", "-rsidekiq", "-e", "0").CombinedOutput(); err != nil {
		return fmt.Errorf("ruby: %w\n%s", err, out)
	}
	return nil
})

// NeedSidekiq ends a test, as Missing does, where Ruby's Sidekiq is missing.
func NeedSidekiq(tb testing.TB) {
	tb.Helper()
	if err := sidekiqMissing(); err != nil {
		Missing(tb, err)
	}
}

// cronMissing tells why Ruby's sidekiq-cron cannot be used; asked once.
var cronMissing = sync.OnceValue(func() error {
	if out, err := exec.CommandContext(context.Background(), "ruby", "-W0", "-rsidekiq", "-rsidekiq/cron", "-e", "0").CombinedOutput(); err != nil {
		return fmt.Errorf("ruby: sidekiq-cron: %w\n%s", err, out)
	}
	return nil
})

// NeedCron ends a test, as Missing does, where Ruby's sidekiq-cron is missing.
func NeedCron(tb testing.TB) {
	tb.Helper()
	NeedSidekiq(tb)
	if err := cronMissing(); err != nil {
		Missing(tb, err)
	}
}

// rubyHead is before each script. What is given to show is printed as JSON.
const rubyHead = `
require "sidekiq"; require "sidekiq/api"; require "json"
$stdout.sync = true; $stdout.set_encoding("UTF-8"); Encoding.default_external = "UTF-8"
Sidekiq.logger.level = Logger::ERROR
Sidekiq.configure_client { |c| c.redis = {url: ENV["REDIS_URL"]} }
def show(v) = print(JSON.generate(v))
`

// Ruby runs a script with the client and the API of the real Sidekiq on the database at url
// and returns what it prints.
func Ruby(tb testing.TB, url, script string) string {
	tb.Helper()
	NeedSidekiq(tb)
	cmd := exec.CommandContext(tb.Context(), "ruby", "-W0", "-EUTF-8:UTF-8", "-e", rubyHead+script)
	cmd.Env = append(cmd.Environ(), "REDIS_URL="+url, "REDIS_PROVIDER=", "LANG=C.UTF-8")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("ruby: %v\n%s", err, errs.String())
	}
	return string(out)
}

// RubyJSON is Ruby for a script that prints JSON.
func RubyJSON[T any](tb testing.TB, url, script string) (v T) {
	tb.Helper()
	text := Ruby(tb, url, script)
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		tb.Fatalf("ruby printed %q: %v", text, err)
	}
	return v
}
