package retry_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/retry"
	"github.com/troupehq/troupe/wire/laravel"
)

// What Laravels write that are newer than the one the tests run with, and what their scripts make
// of it. The sections are those of docs/laravel.md.
var newer = []struct {
	since, section, payload string
	class, args             string  // what a handler gets
	wait                    float64 // before the second attempt
}{
	{
		"13", "Fields of a job",
		`{"uuid":"018f","displayName":"App\\Jobs\\Resize","job":"Illuminate\\Queue\\CallQueuedHandler@call","maxTries":3,"maxExceptions":null,"failOnTimeout":false,"backoff":null,"timeout":null,"retryUntil":null,"deleteWhenMissingModels":false,"data":{"commandName":"App\\Jobs\\Resize","command":"O:15:\"App\\Jobs\\Resize\":1:{s:7:\"picture\";i:7;}","batchId":null},"createdAt":1795000000,"id":"aB3","attempts":0,"delay":null}`,
		`App\Jobs\Resize`, `[{"commandName":"App\\Jobs\\Resize","command":"O:15:\"App\\Jobs\\Resize\":1:{s:7:\"picture\";i:7;}","batchId":null}]`, 0,
	},
	{
		"12.11", "Retries", // pushed with later(30): waits for that again
		`{"uuid":"018f","displayName":"resize","job":"resize","maxTries":3,"maxExceptions":null,"failOnTimeout":false,"backoff":null,"timeout":null,"data":{"id":1},"createdAt":1795000000,"id":"aB3","attempts":0,"delay":30}`,
		"resize", `[{"id":1}]`, 30,
	},
	{
		"11", "Fields of a job", // the log context
		`{"uuid":"018f","displayName":"resize","job":"resize@fire","maxTries":2,"data":{"id":1},"illuminate:log:context":{"data":{"trace":"s:3:\"abc\";"},"hidden":[]},"id":"aB3","attempts":0}`,
		"resize", `[{"id":1}]`, 0,
	},
	{
		"Horizon", "Fields of a job",
		`{"uuid":"018f","displayName":"resize","job":"resize","maxTries":2,"data":{"id":1},"id":"018f","type":"job","tags":["picture:7"],"silenced":false,"pushedAt":"1795000000.1234","attempts":0}`,
		"resize", `[{"id":1}]`, 0,
	},
	{
		"8, after a first attempt", "Leases", // its script has encoded it anew: another order, {} for [], 14 digits
		`{"data":{"l":{},"big":1.7123456789012e+18,"n":{"attempts":9}},"attempts":1,"id":"aB3","job":"resize","uuid":"018f","maxTries":3,"backoff":"1,2"}`,
		"resize", `[{"l":{},"big":1.7123456789012e+18,"n":{"attempts":9}}]`, 2,
	},
	{
		"6", "Retries", // delay was backoff, timeoutAt was retryUntil
		`{"displayName":"resize","job":"resize","maxTries":3,"delay":"4,8","timeout":null,"timeoutAt":1995000000,"data":{"id":1},"id":"aB3","attempts":1}`,
		"resize", `[{"id":1}]`, 8,
	},
}

func TestNewerLaravels(t *testing.T) {
	w, err := laravel.New(laravel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range newer {
		p, err := w.Parse([]byte(c.payload), "q")
		if err != nil {
			t.Errorf("%s: %v", c.since, err)
			continue
		}
		if p.Class() != c.class || string(p.Args()) != c.args {
			t.Errorf("%s: %s %s, expected %s %s", c.since, p.Class(), p.Args(), c.class, c.args)
		}
		if err := w.Check(p, now); err != nil {
			t.Errorf("%s: %v", c.since, err)
		}
		d := retry.Policy{Rules: w.Rules}.Decide(now, 0, retry.Failure{Raw: []byte(c.payload), FetchedFrom: "q", Err: errors.New("boom")})
		if d.Outcome != retry.Retry || d.Wait != c.wait {
			t.Errorf("%s: %s in %v s, expected a retry in %v s", c.since, d.Outcome, d.Wait, c.wait)
		}
		raw, _ := troupe.ParsePayload([]byte(c.payload))
		was, is := fmt.Sprintf(`"attempts":%d`, attempts(raw)), fmt.Sprintf(`"attempts":%d`, attempts(raw)+1)
		if want := strings.Replace(c.payload, was, is, 1); c.since != "8, after a first attempt" && string(d.Payload) != want {
			t.Errorf("%s: retried as\n%s\nexpected\n%s", c.since, d.Payload, want)
		}
	}
}
