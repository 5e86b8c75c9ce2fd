package web

import (
	"testing"
	"time"
)

func TestFunctions(t *testing.T) {
	for got, want := range map[string]string{
		string(badge("<x>")): `<span class="state neutral"><span class="sign" aria-hidden="true">·</span>&lt;x&gt;</span>`,
	} {
		if got != want {
			t.Errorf("got %q, expected %q", got, want)
		}
	}
	now := time.Now()
	contains(t, "a time", string(ago(now.Add(-90*time.Second))), ">1m ago<", `datetime="`, ` UTC"`)
	contains(t, "a time to come", string(ago(now.Add(5*time.Hour))), ">in 5h <small>", now.Add(5*time.Hour).UTC().Format(">Jan 2, 15:04 UTC<"))
}

// Times in sentences are elements, whose title the page's script extends by the viewer's zone; what
// is beside them is escaped.
func TestTimesInSentences(t *testing.T) {
	for text, want := range map[string]string{
		"no time, <b>":                     "no time, &lt;b&gt;",
		"At 2026-11-26 12:05:09 UTC, <b>.": `At <time datetime="2026-11-26T12:05:09Z" title="2026-11-26 12:05:09.000 UTC">2026-11-26 12:05:09 UTC</time>, &lt;b&gt;.`,
		"at 2026-11-26T12:05:09Z & later":  `at <time datetime="2026-11-26T12:05:09Z" title="2026-11-26 12:05:09.000 UTC">2026-11-26T12:05:09Z</time> &amp; later`,
		"since 25:61:00 UTC":               "since 25:61:00 UTC",
	} {
		if got := string(zoned(text)); got != want {
			t.Errorf("%q: %s, expected %s", text, got, want)
		}
	}
	ago := time.Now().UTC().Add(-time.Hour).Truncate(time.Second)
	contains(t, "a time of the last day", string(zoned("since "+ago.Format("15:04:05")+" UTC: gone")), `since <time datetime="`+ago.Format(time.RFC3339)+`"`, "</time>: gone")
}
