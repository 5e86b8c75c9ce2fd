package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

func TestSummary(t *testing.T) {
	name, err := filepath.Abs("testdata/summary.yml") // the test leaves this folder
	harness.OK(t, err)
	inDir(t, "troupe.yml", `
concurrency: 5
timeout: 8
max_retries: 0
metrics: 8
env: [RACK_ENV]
fetch: basic
redis: redis://bob:hunter2@db:6379/3
strategy: {rest_for_one: {intensity: 3, period: 1m}}
queues: {critical: 3, default: 1}
capsules:
  default: {strategy: all_for_one}
  ledger: {concurrency: 1, queues: [ledger, ledger_low], fetch: reliable}
  plain: {concurrency: 2}
handlers:
  NoOp: {builtin: noop}
  Slow: {builtin: sleep, timeout: 90}
  "Media::Thumb": {exec: [sh, -c, "curl -H 'Key: hunter2'"], timeout: 2m}
  Bare: {exec: [sh], env: [RAILS_ENV, DATABASE_URL]}
  Hook: {http: "https://bob:hunter2@hooks.internal/jobs?key=hunter2"}
  Slack:
    timeout: 5
    http: {url: {env: SLACK}, headers: {X-B: hunter2, X-A: {env: KEY}}, secret: {file: secret}}
periodic:
  tidy: {cron: "0 4 * * * UTC", class: NoOp, missed: last, overlap: skip}
`, "secret", "hunter2\n")
	s := load(t, Flags{}, map[string]string{"SLACK": "https://hooks.slack.example/hunter2", "KEY": "hunter2"})
	var b strings.Builder
	harness.OK(t, s.Summary(&b))
	golden(t, name, b.String())
}
