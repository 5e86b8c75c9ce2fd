package retry

import (
	"testing"
	"time"

	"github.com/troupehq/troupe"
)

func recovered(t *testing.T, raw string) Recovered {
	t.Helper()
	p, _ := troupe.ParsePayload([]byte(raw))
	return Recovered{Raw: []byte(raw), Payload: p, Queue: "low", Times: 3, Process: "h:1:aa", Evidence: []string{"one", "two"}}
}

// What is moved says why; every other field keeps its bytes.
func TestRecoveredJobsAreStamped(t *testing.T) {
	now := time.Unix(1795225158, 500e6)
	for raw, want := range map[string]string{
		`{"class":"A","jid":"1","args":[1.10,1e3],"queue":"low"}`: `{"class":"A","jid":"1","args":[1.10,1e3],"queue":"big",` +
			`"recovered":3,"recovered_at":1795225158.5,"recovered_from":"h:1:aa","tags":["recovered"]}`,
		`{"class":"A","tags":["x", "y"],"queue":"big","args":[]}`: `{"class":"A","tags":["x", "y","recovered"],"queue":"big","args":[],` +
			`"recovered":3,"recovered_at":1795225158.5,"recovered_from":"h:1:aa"}`,
		`{"class":"A","tags":["recovered"],"queue":"big","args":[],"recovered":1}`: `{"class":"A","tags":["recovered"],"queue":"big","args":[],` +
			`"recovered":3,"recovered_at":1795225158.5,"recovered_from":"h:1:aa"}`,
		`{"class":"A","tags":"odd","queue":"big","args":[],"recovered":1}`: `{"class":"A","tags":["odd","recovered"],"queue":"big","args":[],` +
			`"recovered":3,"recovered_at":1795225158.5,"recovered_from":"h:1:aa"}`,
		`not a job`:                        ``,
		"{\"class\":\"A\",\"x\":\"\xff\"}": ``, // cannot be written back
	} {
		if got := string((Policy{}).Stamp(now, recovered(t, raw), "big")); got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", raw, got, want)
		}
	}
}

func TestRecoveredJobsGoToTheDeadSet(t *testing.T) {
	now := time.Unix(1795225158, 500e6)
	err := &troupe.RecoveredError{Times: 3, Within: time.Hour, Process: "h:1:aa", Cause: "gone", Poison: true}
	raw := `{"class":"A","dead":false,"failed_at":1.5,"queue":"low","args":[]}`
	d := Policy{DeadMax: 5, DeadTimeout: time.Hour}.Dead(now, recovered(t, raw), err)
	want := `{"class":"A","dead":false,"failed_at":1.5,"queue":"low","args":[],"recovered":3,"recovered_at":1795225158.5,"recovered_from":"h:1:aa",` +
		`"tags":["recovered"],"error_message":"in progress at the death of 3 processes within 1h0m0s, at last of h:1:aa (gone)",` +
		`"error_class":"Troupe::PoisonPill","retried_at":1795225158.5,"recoveries":["one","two"]}`
	if string(d.Payload) != want || d.Outcome != Dead || !d.RunDeathHandlers || d.Score != 1795225158.5 || d.Trim.Max != 5 {
		t.Errorf("dead %+v:\n%s\nwant\n%s", d, d.Payload, want)
	}
	d = Policy{}.Dead(now, recovered(t, `{"class":"A"}`), &troupe.RecoveredError{})
	if get(d.DeathPayload, "failed_at") != "1795225158.5" || get(d.DeathPayload, "error_class") != `"Troupe::Recovered"` {
		t.Errorf("a first failure: %s", d.Payload)
	}
	for _, raw := range []string{"not a job", "{\"class\":\"A\",\"x\":\"\xff\"}"} {
		if d := (Policy{}).Dead(now, recovered(t, raw), err); string(d.Payload) != raw || d.Outcome != Dead {
			t.Errorf("%q became %q", raw, d.Payload)
		}
	}
}
