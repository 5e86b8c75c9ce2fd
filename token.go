package troupe

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Token returns a key for an effect of the running job that ctx belongs to, for an API of others that does once what it is asked twice
// with the same key: as an Idempotency-Key, say. It is the same in each run of the job, after a failure, a rescue or a fence, in
// each process and version of troupe, and differs for another job and for another name. It has the form of a UUID.
//
// The name tells the effects of one job apart: "charge", or "item-17" in a job of many items. Token keeps nothing, and is no secret:
// who knows the jid can make it.
//
// It is an error if ctx is not of a running job, or the job has no jid. In a handler of HandleMany that is the ctx of Job.Context.
func Token(ctx context.Context, name string) (string, error) {
	info, ok := JobInfoFrom(ctx)
	switch {
	case !ok:
		return "", fmt.Errorf("token %q: %w", name, errNoRun)
	case info.JID == "":
		return "", fmt.Errorf("token %q: %w", name, errNoJID)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "troupe %d %s %s", len(info.JID), info.JID, name))
	sum[6] = sum[6]&0x0f | 0x80 // version 8: made in a way of one's own
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]), nil
}

var errNoJID = errors.New("the job has no jid")
