package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit/chaos"
)

// ruby runs a script with Sidekiq's client and API on the database at url and
// decodes the JSON that it prints into out, unless that is nil.
func ruby(t testing.TB, url, script string, out any) {
	t.Helper()
	text := redistest.Ruby(t, url, script)
	if out == nil {
		return
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
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

// sidekiq starts a real Sidekiq and waits until it runs.
func sidekiq(t testing.TB, url string, flags ...string) *chaos.Process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "worker.rb")
	harness.OK(t, os.WriteFile(file, []byte(rubyWorker), 0o600))
	return procs.Sidekiq(t, url, file, "e2e: started", flags...)
}

// rubyRun is one entry of e2e:ruby.
type rubyRun struct {
	JID, Class string
	Args       json.RawMessage
}

func (r *rubyRun) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&r.JID, &r.Class, &r.Args})
}
