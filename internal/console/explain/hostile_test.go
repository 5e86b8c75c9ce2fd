package explain_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/console/explain"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// told is what is said of a job: its place, the codes of the reasons, the next step.
func told(t *testing.T, rdb *redis.Client, jid string) (codes, said string) {
	t.Helper()
	x := harness.Must(explain.Job(t.Context(), rdb, jid, nil))(t)
	codes = x.Place + ":"
	for _, r := range x.Why {
		codes += " " + r.Code
		said += r.Text + " "
	}
	if text, err := json.Marshal(x); err != nil || strings.Contains(string(text), ":null") {
		t.Errorf("as JSON: %s, %v", text, err)
	}
	return codes, said + x.Next
}

// What others have spoilt hides no job, and what was not searched is told.
func TestSpoiltKeys(t *testing.T) {
	rdb, _ := redistest.New(t)
	for _, args := range [][]any{
		{"SADD", "queues", "spoilt", "fine", "$(reboot)"}, {"SET", "queue:spoilt", "x"}, {"SET", "dead", "x"}, {"SADD", "paused", "$(reboot)"},
		{"LPUSH", "queue:fine", `{"class":"A","args":[],"jid":"waits"}`},
		{"LPUSH", "queue:$(reboot)", `{"class":"A","args":[],"jid":"shell"}`},
		{"ZADD", "schedule", "1895000000000", `{"class":"A","args":[],"jid":"millis"}`, "+inf", `{"class":"A","args":[],"jid":"never"}`},
		{"ZADD", "retry", "-5", `{"class":"A","args":[],"jid":"early","created_at":-1e12}`},
		{"SADD", "processes", "h:1:a"}, {"HSET", "h:1:a", "info", "no JSON", "beat", "never"},
		{"LPUSH", "troupe:pulse:h:1:a", "x"}, {"ZADD", "troupe:pulses", "4e9", "h:1:a"},
		{"SET", "troupe:flight:h:1:a", "x"}, {"ZADD", "troupe:flights", "4e9", "h:1:a"},
	} {
		if err := rdb.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(args, err)
		}
	}
	for jid, want := range map[string][2]string{
		"waits":  {"queue:fine: nobody_listens position", "No process listens on the queue fine."},
		"shell":  {"queue:$(reboot): paused nobody_listens position", "Nothing, until it is unpaused, troupe queues unpause '$(reboot)', and a process listens on it."},
		"millis": {"scheduled: scheduled far", "It was pushed for the score 1895000000000."},
		"never":  {"scheduled: scheduled far", "Nothing, until somebody gives it another time: troupe jobs reschedule scheduled never --at 1h."},
		"early":  {"retry: retry overdue", "It has failed 0 times, at last with an error that is not told."},
		"nobody": {": not_found", "not dead, which is a key of a wrong type; queue:spoilt, which is a key of a wrong type. It is not known."},
	} {
		if codes, said := told(t, rdb, jid); codes != want[0] || !strings.Contains(said, want[1]) {
			t.Errorf("%s: %s\n%s\nexpected %s\n%s", jid, codes, said, want[0], want[1])
		}
	}
}

// takes moves a job into the retry set when its queue is read for the first time.
type takes struct{ rdb *redis.Client }

func (h takes) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h takes) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h takes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return reads(c, "head", "tail") }) {
			if raw, err := h.rdb.RPop(ctx, "queue:a").Result(); err == nil {
				h.rdb.ZAdd(ctx, "retry", redis.Z{Score: 1, Member: raw})
			}
		}
		return next(ctx, cmds)
	}
}

// A job that moves during the search is found.
func TestAJobThatMoves(t *testing.T) {
	rdb, url := redistest.New(t)
	rdb.SAdd(t.Context(), "queues", "a")
	rdb.LPush(t.Context(), "queue:a", `{"class":"A","args":[],"jid":"moves"}`)
	opt := harness.Must(redis.ParseURL(url))(t)
	looks := redis.NewClient(opt)
	defer looks.Close()
	looks.AddHook(takes{rdb})
	if codes, said := told(t, looks, "moves"); !strings.HasPrefix(codes, "retry: retry") {
		t.Errorf("%s %s", codes, said)
	}
}

// A process that has died, and is remembered for a while, is none that runs.
func TestOnlyADeadProcessIsKnown(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx, now := t.Context(), time.Now()
	rdb.SAdd(ctx, "queues", "a")
	rdb.LPush(ctx, "queue:a", `{"class":"A","args":[],"jid":"waits"}`)
	rdb.ZAdd(ctx, "schedule", redis.Z{Score: float64(now.Add(time.Hour).Unix()), Member: `{"class":"A","args":[],"jid":"later","queue":"a"}`})
	dead := beat.Pulse{Phase: "running", At: float64(now.Add(-2 * time.Minute).Unix())}
	if _, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		beat.WritePulse(ctx, pipe, "h:1:dead", dead.JSON(), now)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if all, err := fleet.New(rdb, nil).Processes(ctx); err != nil || len(all) != 1 || all[0].Phase != fleet.Gone {
		t.Fatalf("processes %+v, %v", all, err)
	}
	for jid, want := range map[string]string{"waits": "No process listens on the queue a: none runs.", "later": "Nothing, until a process is started."} {
		if _, said := told(t, rdb, jid); !strings.Contains(said, want) {
			t.Errorf("%s: %s, expected %s", jid, said, want)
		}
	}
}
