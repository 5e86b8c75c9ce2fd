package main

import (
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// What await prints and returns for each end; its result is masked, and so is that of jobs show and explain.
func TestAwaitCommand(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	for jid, end := range map[string]string{
		"done": `{"outcome":"done","at":1795225014.5,"result":{"bytes":12345678901234567890,"token":"hunter2"}}`,
		"dead": `{"outcome":"dead","at":1795225014.5,"error_class":"net.OpError","error_message":"dial: password=hunter2"}`,
		"gone": `{"outcome":"deleted","at":1795225014.5}`,
	} {
		harness.OK(t, rdb.Set(t.Context(), "troupe:result:"+jid, end, 0).Err())
	}
	for _, c := range []struct {
		line string
		code int
		out  string
		err  string
	}{
		{"await done", 0, `{"bytes":12345678901234567890,"token":"[masked]"}` + "\n", ""},
		{"await done --args hide", 0, `"[hidden]"` + "\n", ""},
		{"await done --json", 0, `{"jid":"done","outcome":"done","result":{"bytes":12345678901234567890,"token":"[masked]"}}` + "\n", ""},
		{"await dead", 3, "", "job dead is not done, it is dead: net.OpError: dial: password=[masked]"},
		{"await gone --json", 3, `{"at":"2026-11-21T01:36:54.5Z","jid":"gone","outcome":"deleted"}` + "\n", "it is deleted"},
		{"await nobody --timeout 50ms", 2, "", "nothing is known of the end of the job nobody after 50ms"},
		{"jobs show done", 0, `{"bytes":12345678901234567890,"token":"[masked]"}`, ""},
		{"jobs show done --json", 0, `"value":{"bytes":12345678901234567890,"token":"[masked]"}`, ""},
		{"explain done", 0, "and its result is kept", ""},
		{"explain dead --json", 0, `"error_message":"dial: password=[masked]"`, ""},
		{"jobs show nobody", 2, "", "no job nobody was found"},
	} {
		got := call(t.Context(), append(strings.Fields(c.line), "--redis", url)...)
		if got.code != c.code || !strings.Contains(got.out, c.out) || !strings.Contains(got.err, c.err) || strings.Contains(got.out+got.err, "hunter2") {
			t.Errorf("troupe %s: %s, expected %d, %q, %q", c.line, got, c.code, c.out, c.err)
		}
	}
}
