package troupe

import (
	"context"
	"regexp"
	"testing"

	"github.com/troupehq/troupe/internal/jobctx"
)

// The tokens of a job are those of its jid and of the name: not one of them may ever be another, or what an API has done under it is done
// again.
func TestToken(t *testing.T) {
	of := func(info JobInfo, name string) string {
		t.Helper()
		token, err := Token(context.WithValue(t.Context(), jobctx.Info{}, &info), name)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	first := of(JobInfo{JID: "0d6ec0d6a7e2450f8a158dc8", Attempt: 1, Queue: "a", Capsule: "b"}, "charge")
	if again := of(JobInfo{JID: "0d6ec0d6a7e2450f8a158dc8", Attempt: 3, Queue: "c"}, "charge"); again != first {
		t.Errorf("%s, and in a later run %s", first, again)
	}
	if want := "5704aea5-5252-8afd-afd7-76f26c5fe39a"; first != want {
		t.Errorf("%s, expected that of all versions, %s", first, want)
	}
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(first) {
		t.Errorf("%s is no UUID", first)
	}
	all := map[string]bool{first: true}
	for _, other := range [][2]string{
		{"0d6ec0d6a7e2450f8a158dc8", "mail"}, {"0d6ec0d6a7e2450f8a158dc8", ""}, {"1d6ec0d6a7e2450f8a158dc8", "charge"}, {"a", "b c"}, {"a b", "c"}, {"1", "1 1"}, {"1 1", "1"},
	} {
		all[of(JobInfo{JID: other[0]}, other[1])] = true
	}
	if len(all) != 8 {
		t.Errorf("%d tokens of 8 jids and names", len(all))
	}
	for want, ctx := range map[string]context.Context{
		`token "charge": the context belongs to no job, expected that of a handler`: t.Context(),
		`token "charge": the job has no jid`:                                        context.WithValue(t.Context(), jobctx.Info{}, &JobInfo{}),
	} {
		if token, err := Token(ctx, "charge"); err == nil || err.Error() != want || token != "" {
			t.Errorf("%q, %v, expected %s", token, err, want)
		}
	}
}
