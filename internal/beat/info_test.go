package beat

import (
	"strings"
	"testing"
	"time"
)

func testInfo(identity string) Info {
	return Info{
		Hostname: "vm", PID: 24128, Identity: identity, Tag: "mytag", Version: "8.1.7",
		StartedAt: time.Unix(1795225092, 901522000),
		Capsules: []Capsule{
			{Name: "default", Concurrency: 3, Mode: "weighted", Queues: []string{"crit", "default"}, Weights: map[string]int{"crit": 3, "default": 1}},
			{Name: "single", Concurrency: 1, Mode: "strict", Queues: []string{"serial", "serial2"}},
		},
	}
}

// The values are those of a line that Sidekiq 8.1.7 wrote; "concurrency" stands
// where 6 and 7 have it.
func TestInfoHasTheFieldsOfEveryVersion(t *testing.T) {
	want := `{"hostname":"vm","started_at":1795225092.901522,"pid":24128,"tag":"mytag","concurrency":4,` +
		`"capsules":{"default":{"concurrency":3,"mode":"weighted","weights":{"crit":3,"default":1}},` +
		`"single":{"concurrency":1,"mode":"strict","weights":{"serial":0,"serial2":0}}},` +
		`"queues":["crit","default","serial","serial2"],` +
		`"weights":[{"crit":3,"default":1},{"serial":0,"serial2":0}],"labels":[],` +
		`"identity":"vm:24128:acf4dc59d44a","version":"8.1.7","embedded":false}`
	if got := string(testInfo("vm:24128:acf4dc59d44a").JSON()); got != want {
		t.Errorf("info\n got %s\nwant %s", got, want)
	}
}

func TestInfoOfLittle(t *testing.T) {
	want := `{"hostname":"","started_at":1795225244.0,"pid":0,"tag":"","concurrency":0,"capsules":{},"queues":[],` +
		`"weights":[],"labels":["a\"b","` + "\ufffd" + `"],"identity":"","version":"","embedded":true}`
	info := Info{StartedAt: time.Unix(1795225244, 0), Labels: []string{`a"b`, "\xff"}, Embedded: true}
	if got := string(info.JSON()); got != want {
		t.Errorf("info\n got %s\nwant %s", got, want)
	}
}

func TestAQueueOfTwoCapsulesIsListedOnce(t *testing.T) {
	info := Info{Capsules: []Capsule{{Name: "a", Queues: []string{"x", "y"}}, {Name: "b", Queues: []string{"y", "z"}}}}
	if got, want := string(info.JSON()), `"queues":["x","y","z"],"weights":[{"x":0,"y":0},{"y":0,"z":0}]`; !strings.Contains(got, want) {
		t.Errorf("info %s without %s", got, want)
	}
}
