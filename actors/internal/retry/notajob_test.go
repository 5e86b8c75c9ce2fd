package retry

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/troupehq/troupe/internal/scores"
)

func TestWhatIsNoJobDies(t *testing.T) {
	for raw, kept := range map[string]bool{
		"": true, "{": true, "[1": true, "\xef\xbb\xbf{}": true, `{"a":NaN}`: true, `{} x`: true, strings.Repeat("[", 101) + strings.Repeat("]", 101): true,
		"[1]": false, `"x"`: false, "5": false, "null": false, "1e999": false, " true\n": false, "[\"\xff\"]": false,
	} {
		for name, d := range map[string]Decision{
			"Decide":  Policy{}.Decide(now, rand.Uint64(), Failure{Raw: []byte(raw), FetchedFrom: "low", Err: boom}),
			"Invalid": Policy{}.invalid(now, []byte(raw), "low", boom),
			"Dead":    Policy{}.Dead(now, Recovered{Raw: []byte(raw), Queue: "low"}, boom),
		} {
			if !kept {
				p := fields(t, d.Payload)
				var args []string
				if err := json.Unmarshal(p.Args(), &args); err != nil || len(args) != 1 || args[0] != strings.ToValidUTF8(raw, "\ufffd") ||
					p.Class() != "Troupe::NotAJob" || p.Queue() != "low" || get(p, "retry") != "0" || len(p.JID()) != 24 || get(p, "failed_at") != "1795225014.2125583" {
					t.Errorf("%s(%q): %s", name, raw, d.Payload)
				}
				if again := (Policy{}).invalid(now, d.Payload, "low", boom); !bytes.Equal(again.Payload, d.Payload) {
					t.Errorf("%s(%q): %s\nonce more: %s", name, raw, d.Payload, again.Payload)
				}
				if exact, ok := p.String("raw_base64"); ok != !utf8.ValidString(raw) || ok && exact != base64.StdEncoding.EncodeToString([]byte(raw)) {
					t.Errorf("%s(%q): %s", name, raw, d.Payload)
				}
				d.Payload = []byte(raw)
			}
			if d.Outcome != Dead || d.Reason != becauseNotAJob || string(d.Payload) != raw || d.RunDeathHandlers || d.Score != scores.Of(now) || d.Trim.Max != 10_000 {
				t.Errorf("%s(%q): %+v", name, raw, d)
			}
		}
	}
}
