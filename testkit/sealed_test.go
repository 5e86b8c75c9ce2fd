package testkit_test

import (
	"context"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

type sealedJob struct {
	Card string `arg:"0"`
}

func (sealedJob) Class() string { return "Sealed" }

func (sealedJob) Defaults() troupe.Options { return troupe.Options{Encrypt: true} }

// A test needs no keys: it sees the arguments, and that Redis would not.
func TestSealedJobsInTests(t *testing.T) {
	var r troupe.Registry
	var ran []string
	handle := func(ctx context.Context, job *troupe.Job[sealedJob]) error {
		if ran = append(ran, job.Args.Card); job.Args.Card == "parent" {
			_, err := client.Within(ctx).Push(ctx, sealedJob{"child"})
			return err
		}
		return nil
	}
	troupe.Handle(&r, handle)
	harness.OK(t, testkit.Perform(t, t.Context(), handle, sealedJob{"performed"}))
	q := testkit.Fake(t)
	_, err := q.Client.Push(t.Context(), sealedJob{"parent"})
	harness.OK(t, err)
	_, err = q.Client.PushChain(t.Context(), client.Job(sealedJob{"first"}), client.Job(sealedJob{"second"}, client.Encrypt(false)))
	harness.OK(t, err)
	_, err = q.Client.Push(t.Context(), sealedJob{"unique"}, client.Unique(troupe.Unique{}))
	harness.OK(t, err)
	harness.Equal(t, "pushed", string(q.All()[0].Args()), `["parent"]`)
	harness.Equal(t, "sealed", q.All()[0].Sealed && q.All()[1].Sealed && q.All()[2].Sealed, true)
	for _, card := range []string{"replaced", "debounced"} {
		_, err = q.Client.Push(t.Context(), sealedJob{card}, client.Debounce("k", time.Hour, 0))
		harness.OK(t, err)
	}
	_, err = q.Drain(t.Context(), &r)
	harness.OK(t, err)
	harness.EqualList(t, "ran", ran, []string{"performed", "parent", "first", "unique", "debounced", "child", "second"})
	harness.Equal(t, "the second of the chain is sealed", q.All()[5].Sealed, false)
	_, err = testkit.Inline(t, &r, nil, client.WithEncryption(troupe.Encryption{Keys: map[int][]byte{3: make([]byte, troupe.KeySize)}})).Client.Push(t.Context(), sealedJob{"inline"})
	harness.OK(t, err)
	harness.Equal(t, "the last", ran[len(ran)-1], "inline")
}
