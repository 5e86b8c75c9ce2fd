package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// sidekiqMissing tells why Ruby's Sidekiq cannot be used; asked once.
var sidekiqMissing = sync.OnceValue(func() error {
	if _, err := exec.LookPath("sidekiq"); err != nil {
		return err
	}
	return exec.Command("ruby", "-rsidekiq", "-e", "0").Run()
})

func needRuby(t testing.TB) {
	t.Helper()
	if err := sidekiqMissing(); err != nil {
		redistest.Missing(t, err)
	}
}

// ruby runs a script with Sidekiq's client and API on the database at url and
// decodes the JSON that it prints into out, unless that is nil.
func ruby(t testing.TB, url, script string, out any) {
	t.Helper()
	needRuby(t)
	cmd := exec.CommandContext(t.Context(), "ruby", "-W0", "-EUTF-8:UTF-8", "-e",
		"require 'sidekiq/api'; require 'json'; def show(v) = print(JSON.generate(v))\n"+script)
	cmd.Env = append(os.Environ(), "REDIS_URL="+url, "REDIS_PROVIDER=")
	var errs strings.Builder
	cmd.Stderr = &errs
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("ruby: %v\n%s", err, errs.String())
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatalf("ruby printed %q: %v", text, err)
	}
}

// rubyWorker is the application of a real Sidekiq. Each run is recorded in list
// e2e:ruby of its own database as [jid, class, args].
const rubyWorker = `
Redis.silence_deprecations = true if Redis.respond_to?(:silence_deprecations=)
Sidekiq.configure_server do |c|
  c.options[:poll_interval_average] = 0.5
  c.on(:startup) { $stderr.puts "e2e: started" }
end
module Recorded
  def self.included(c) = c.include(Sidekiq::Worker)
  def note(*args) = Sidekiq.redis { |r| r.rpush("e2e:ruby", JSON.generate([jid, self.class.name, args])) }
end
class Record
  include Recorded
  def perform(*args) = note(*args)
end
class Fail
  include Recorded
  def perform(*args)
    note(*args)
    raise ArgumentError, "ruby says no"
  end
end
class FailOnce < Fail; end
`

// sidekiq starts a real Sidekiq on queue and waits until it runs.
func sidekiq(t testing.TB, url string, flags ...string) *chaos.Process {
	t.Helper()
	needRuby(t)
	file := filepath.Join(t.TempDir(), "worker.rb")
	if err := os.WriteFile(file, []byte(rubyWorker), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), "sidekiq", append([]string{"-r", file}, flags...)...)
	cmd.Dir = t.TempDir()
	p := chaos.Launch(t, "sidekiq", cmd, "REDIS_URL="+url, "RUBYOPT=-W0")
	testkit.Await(t, "sidekiq runs", func() bool {
		return strings.Contains(p.Stderr(), "e2e: started") || !p.Running()
	})
	return p
}

// rubyRun is one entry of e2e:ruby.
type rubyRun struct {
	JID, Class string
	Args       json.RawMessage
}

func (r *rubyRun) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&r.JID, &r.Class, &r.Args})
}
