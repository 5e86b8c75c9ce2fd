package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// evil is in every text of TestNoTextDrivesTheTerminal.
const evil = "\x1b[31m\u009b1m\u202e\u2028\n\r\t\x7f\x00é"

// driving finds the characters that could drive a terminal or break a line.
func driving(text string) []rune {
	var found []rune
	for _, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)) {
			found = append(found, r)
		}
	}
	return found
}

// Names, errors and arguments that others wrote reach the output of no command as they are: neither
// control characters nor more lines than there are rows.
func TestNoTextDrivesTheTerminal(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	quoted := harness.Must(json.Marshal("x" + evil))(t)
	q := string(quoted)
	now := time.Now().Unix()
	job := func(jid string) string {
		return fmt.Sprintf(`{"class":%s,"args":[%s,{%s:1}],"queue":%s,"jid":%s,"tags":[%s],"error_class":%s,"error_message":%s,"retry_count":1,%s:%s}`, q, q, q, q, jid, q, q, q, q, q)
	}
	id, place, queue := "x"+evil, "p"+evil+"#c.1", "q"+evil
	jq := harness.Must(json.Marshal(queue))(t)
	for _, args := range [][]any{
		{"SADD", "queues", queue, queue + ".suspects"}, {"LPUSH", "queue:" + queue, job(q), evil}, {"LPUSH", "queue:" + queue + ".suspects", job(`"s"`)},
		{"ZADD", "retry", 1795225036, job(`"r1"`), 1795225037, evil}, {"ZADD", "dead", 1795225036, job(q)}, {"ZADD", "schedule", 1995225036, job(`"s1"`)},
		{"SADD", "processes", id}, {"HSET", id, "info", fmt.Sprintf(`{"hostname":%s,"tag":%s,"version":%s,"concurrency":2,"queues":[%s],"labels":[%s],"identity":%s}`, q, q, q, jq, q, q), "busy", 1, "beat", now, "quiet", "false"},
		{"HSET", id + ":work", evil, fmt.Sprintf(`{"queue":%s,"payload":%q,"run_at":1795225012}`, q, job(`"runs"`)), "junk", evil},
		{"SET", "troupe:tree:" + id, fmt.Sprintf(`[{"path":%s,"role":%s,"state":%s,"note":%s,"last_failure":%s,"job":{"jid":%s,"class":%s},"unresponsive":[{"jid":"runs","class":%s,"cause":%s,"stack":%s}]}]`, q, q, q, q, q, q, q, q, q, q)},
		{"RPUSH", "troupe:flight:" + id, fmt.Sprintf(`{"at":"2026-11-21T01:36:54.5Z","kind":%s,"jid":"r1","class":%s,"queue":%s,"capsule":%s,"actor":%s,"text":%s}`, q, q, q, q, q, q)},
		{"ZADD", "troupe:flights", now, id},
		{"ZADD", "troupe:pulses", now - 60, "gone" + evil}, {"SET", "troupe:pulse:gone" + evil, fmt.Sprintf(`{"at":%d,"tag":%s,"version":%s,"phase":%s,"actors":{%s:%s},"failure":%s}`, now-60, q, q, q, q, q, q)},
		{"HSET", "troupe:places", place, fmt.Sprintf(`{"v":2,"queues":[%s]}`, jq), "new" + evil, evil}, {"HSET", "troupe:inprogress:" + place, "!", "1 7", "7.1", queue + " 1795224881000"},
		{"LPUSH", "troupe:claim:" + place + ":7.1", job(`"p1"`)},
		{"SADD", "cron_jobs:default", "cron_job:default:n" + evil},
		{"HSET", "cron_job:default:n" + evil, "name", "n" + evil, "klass", "x" + evil, "cron", "x" + evil, "description", evil, "args", evil, "status", "enabled", "message", job(q), "troupe_last", `{"what":` + q + `,"jid":` + q + "}"},
		{"LPUSH", "cron_job:default:n" + evil + ":jid_history", `{"jid":` + q + "}"}, {"SET", "troupe:lock:" + evil, evil},
	} {
		if err := rdb.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(args, err)
		}
	}
	shown := 0
	for _, words := range [][]string{
		{"stats"}, {"ps"}, {"ps", "--trouble"}, {"tree"}, {"tree", id}, {"tree", "nobody"}, {"queues", "--over", "0"}, {"queues", "show", queue}, {"queues", "show", evil},
		{"jobs", "list", "retry"}, {"jobs", "list", "dead", "--args", "show"}, {"jobs", "list", "running"}, {"jobs", "list", "queue:" + queue}, {"jobs", "list", evil},
		{"jobs", "show", "r1", "--args", "show"}, {"jobs", "show", "x" + evil}, {"jobs", "show", evil}, {"jobs", "export", "retry"}, {"jobs", "export", "queue:" + queue, "--args", "show"},
		{"jobs", "cancel", "runs"}, {"jobs", "retry", "retry", "--dry-run", "--all"}, {"jobs", "retry", "retry", evil}, {"jobs", "retry", "retry", "--all"},
		{"explain", "r1"}, {"explain", "runs"}, {"explain", "p1"}, {"explain", "s"}, {"explain", "x" + evil}, {"explain", evil}, {"events"}, {"events", "--kind", evil},
		{"periodic"}, {"periodic", "show", "n" + evil}, {"periodic", "show", evil}, {"periodic", "disable", "n" + evil}, {"periodic", "push", "n" + evil}, {"periodic", "add", "n" + evil, evil, "--cron", evil}, {"explain", "n" + evil},
		{"locks"}, {"locks", "free", evil, "--reason", evil}, {"locks", "free", "troupe:lock:" + evil, "--reason", evil}, {"doctor"}, {"inflight"}, {"inflight", "--jobs"}, {"rescue", "--dry-run"}, {"configure", id, "--concurrency", "3"}, {"configure", evil, "--concurrency", "3"},
		{"dump", "--all"}, {"quiet", id}, {"queues", "pause", queue}, {"queues", "clear", queue}, {"rescue"}, {"nothing" + evil},
	} {
		for _, mode := range []string{"", "--json"} {
			got := call(t.Context(), append(append(slices.Clone(words), "--redis", url), strings.Fields(mode)...)...)
			if found := driving(got.out + got.err); found != nil {
				t.Errorf("%q %s prints %q: %q %q", words, mode, found, got.out, got.err)
			}
			if strings.Contains(got.out+got.err, "é") {
				shown++
			}
			for line := range strings.Lines(got.out) {
				if mode != "" && !json.Valid([]byte(line)) {
					t.Errorf("%q %s prints %q", words, mode, line)
				}
			}
		}
	}
	if shown < 50 {
		t.Errorf("%d outputs have the text in them", shown)
	}
}
