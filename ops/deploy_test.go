package ops

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupehq/troupe/internal/test/harness"
)

const (
	alerts    = "../deploy/prometheus/alerts.yml"
	dashboard = "../deploy/grafana/troupe.json"
)

// expressions are those of the panels of the dashboard, with values for Grafana's variables.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	text := harness.Must(os.ReadFile(dashboard))(t)
	var grafana struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	harness.OK(t, json.Unmarshal(text, &grafana))
	for _, p := range grafana.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			all = append(all, strings.NewReplacer("$__rate_interval", "5m", "$job", ".*").Replace(target.Expr))
		}
	}
	return all
}

// Each metric that the dashboard and the alerts name is exposed by a real daemon, or for the
// fleet, and has the labels that they ask for.
func TestDashboardAndAlertsNameMetricsThatExist(t *testing.T) {
	k := world(t)
	text := harness.Must(fleetOf(t, k.Redis))(t)
	exposed := scrape(t, k.Daemon) + text
	rules := harness.Must(os.ReadFile(alerts))(t)
	used := map[string]bool{}
	for _, expr := range append(expressions(t), string(rules)) {
		for _, m := range regexp.MustCompile(`(troupe_\w+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(expr, -1) {
			used[m[1]] = true
			_, found, _ := strings.Cut(exposed, "\n"+m[1]+"{")
			if _, after, bare := strings.Cut(exposed, "\n"+m[1]+" "); bare {
				found = " " + after
			}
			if found == "" {
				t.Errorf("no metric %s, in %s", m[1], expr)
				continue
			}
			labels, _, _ := strings.Cut(found, "\n")
			for _, l := range regexp.MustCompile(`(\w+)=~?"`).FindAllStringSubmatch(m[2], -1) {
				if l[1] != "job" && !strings.Contains(labels, l[1]+`="`) { // job is Prometheus's own
					t.Errorf("%s has no label %s, in %s", m[1], l[1], expr)
				}
			}
		}
	}
	if len(used) < 20 {
		t.Errorf("only %d metrics are used: %v", len(used), used)
	}
}

// The manual has each metric with its type and its labels.
func TestTheManualHasEachMetric(t *testing.T) {
	manual := harness.Must(os.ReadFile("../docs/metrics.md"))(t)
	for _, m := range slices.Concat(daemonMetrics, fleetMetrics) {
		kind := map[prometheus.ValueType]string{prometheus.CounterValue: "counter", prometheus.GaugeValue: "gauge", prometheus.UntypedValue: "histogram"}[m.kind]
		labels := ""
		if len(m.keys) > 0 {
			labels = "`" + strings.Join(m.keys, "`, `") + "` "
		}
		if row := fmt.Sprintf("| `%s` | %s | %s| ", m.name, kind, labels); !strings.Contains(string(manual), row) {
			t.Errorf("no row %s…", row)
		}
	}
}

// Prometheus reads the rules and the expressions of the dashboard; each alert fires when it
// should.
func TestPrometheusReadsTheRules(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{alerts, "testdata/alerts_test.yml"} {
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600)
		}
		harness.OK(t, err)
	}
	var panels strings.Builder
	panels.WriteString("groups:\n- name: panels\n  rules:\n")
	for i, expr := range expressions(t) {
		fmt.Fprintf(&panels, "  - record: panel:%d\n    expr: %q\n", i, expr)
	}
	harness.OK(t, os.WriteFile(filepath.Join(dir, "panels.yml"), []byte(panels.String()), 0o600))
	promtool(t, dir, "", "check", "rules", "alerts.yml", "panels.yml")
	promtool(t, dir, "", "test", "rules", "alerts_test.yml")
}
