package redisconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/redistest"
)

// What counts as an outage or as a matter of rights since Redis has said so is told as a refusal.
func TestEveryReplyThatIsAFaultHasWords(t *testing.T) {
	for code := range replyFaults {
		if r, ok := Refused(fmt.Errorf("push: %w", Reply(code+" x"))); !ok || r.Code != code || r.Text == "" || r.Do == "" {
			t.Errorf("%s: %+v, %v", code, r, ok)
		}
	}
	for code := range refusals {
		if _, known := replyFaults[code]; !known {
			t.Errorf("%s is no fault", code)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		err  error
		code string // "" for no refusal
	}{
		{nil, ""},
		{redis.Nil, ""},
		{io.EOF, ""},
		{context.DeadlineExceeded, ""},
		{errors.New("OOM"), ""}, // nobody's reply
		{Reply("WRONGTYPE Operation against a key"), ""},
		{Reply("ERR unknown command 'x'"), ""},
		{Reply("OOM command not allowed. script: 0e, on @user_script:1."), "OOM"},
		{Reply("ERR Error running script (call to f_0e): @user_script:1: @user_script: 1: -OOM command not allowed"), "OOM"},
		{Reply("EXECABORT Transaction discarded because of: MISCONF Redis is configured"), "MISCONF"},
		{Reply("EXECABORT Transaction discarded because of previous errors."), "EXECABORT"},
		{Reply("ERR max number of clients reached"), maxClients},
		{Reply("ERR LOADING server is loading"), "LOADING"},
		{Reply("ERR invalid password"), "WRONGPASS"},
		{Reply("ERR The user executing the script can't run this command or subcommand script: 0e, on @user_script:1."), "NOPERM"},
		{Reply("ERR ACL failure in script: User u has no permissions to run the 'hdel' command script: 0e, on @user_script:1."), "NOPERM"},
	} {
		if r, ok := Refused(tt.err); r.Code != tt.code && ok || ok != (tt.code != "") {
			t.Errorf("%v: %+v, %v, expected %q", tt.err, r, ok, tt.code)
		}
	}
}

// The error of a MULTI has the reason of the command that was refused.
func TestReason(t *testing.T) {
	c := fromURL(t, redistest.Start(t).URL(0))
	c.ConfigSet(t.Context(), "maxmemory", "1")
	cmds, err := c.TxPipelined(t.Context(), func(p redis.Pipeliner) error { p.Ping(t.Context()); p.Set(t.Context(), "a", 1, 0); return nil })
	if r, ok := Refused(Reason(cmds, err)); !ok || r.Code != "OOM" {
		t.Errorf("%v: %+v", err, r)
	}
	if Reason(nil, nil) != nil || !errors.Is(Reason(cmds, io.EOF), io.EOF) {
		t.Error("an error that is no such one is changed")
	}
}
