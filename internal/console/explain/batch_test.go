package explain_test

import (
	"strings"
	"testing"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/console/explain"
	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

type after struct{}

func (after) Class() string { return "After" }

// A job tells its batch, and a callback whose it is: before it is pushed, when its queue refuses it, and behind.
func TestJobsOfBatches(t *testing.T) {
	rdb := testkit.Redis(t)
	ctx, c := t.Context(), client.New(rdb)
	on := func(jid string) client.Item { return client.Job(after{}, client.JID(jid), client.Queue("calls")) }
	push := func(name, jid string, open bool) (id string) {
		id, err := c.Batch(ctx, client.BatchOptions{Name: name, Open: open, Complete: on(jid + "-complete"), Success: on(jid + "-success"), Death: on(jid + "-death")}, func(b *client.Batch) error {
			_, err := b.PushClass(ctx, "C", nil, client.JID(jid))
			return err
		})
		harness.OK(t, err)
		return id
	}
	wants := func(jid, place, next string, parts ...string) {
		t.Helper()
		x := harness.Must(explain.Job(ctx, rdb, jid, mask.New(mask.Mask, nil, nil)))(t)
		why := ""
		for _, r := range x.Why {
			why += r.Text + "\n"
		}
		for _, part := range parts {
			if x.Place != place || !strings.Contains(why, part) || !strings.Contains(x.Next, next) {
				t.Errorf("%s is %s, next %q, expected %s, %q and %q in:\n%s", jid, x.Place, x.Next, place, next, part, why)
			}
		}
	}
	id := push("nightly", "aaaaaaaa", false)
	wants("aaaaaaaa", "queue:default", "", "It is job 0 of the batch "+id+" (nightly)", "which is running: 1 of 1 job not done.")
	wants("aaaaaaaa-complete", "batch", "each of its jobs has ended a run", "It is the callback complete of the batch "+id, "Not run yet: 1 of 1 job.")
	wants("aaaaaaaa-success", "batch", "troupe batches show "+id, "Not done: 1 of 1 job.")
	wants("aaaaaaaa-death", "batch", "when a job of the batch dies", "class After")
	open := push("", "bbbbbbbb", true)
	wants("bbbbbbbb-success", "batch", "is closed", "It is the callback success of the batch "+open, "The batch is open.")
	harness.OK(t, c.CancelBatch(ctx, open))
	wants("bbbbbbbb", "queue:default", "It is dropped when its turn comes", "which was cancelled.")
	wants("bbbbbbbb-success", "", "", "It neither runs nor waits")

	rdb.Set(ctx, "queue:calls", "wrong", 0)
	harness.OK(t, rdb.HSet(ctx, "troupe:batch:"+id, "pending", 0, "unrun", 0).Err())
	wants("aaaaaaaa-complete", "batch", "troupe batches close "+id, "The queue calls refuses it.")
	rdb.Del(ctx, "queue:calls")
	harness.OK(t, c.CloseBatch(ctx, id))
	wants("aaaaaaaa-success", "queue:calls", "", "It is the callback success of the batch "+id)
	rdb.Del(ctx, "troupe:batch:"+id)
	wants("aaaaaaaa-success", "queue:calls", "", "It is the callback success of the batch "+id)
	wants("aaaaaaaa", "queue:default", "", "which is not there any more")
}
