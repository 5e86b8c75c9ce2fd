package web

import (
	"testing"
	"time"
)

func TestFunctions(t *testing.T) {
	for got, want := range map[string]string{
		string(badge("<x>")): `<span class="state calm"><span class="sign" aria-hidden="true">·</span>&lt;x&gt;</span>`,
	} {
		if got != want {
			t.Errorf("got %q, expected %q", got, want)
		}
	}
	now := time.Now()
	contains(t, "a time", string(ago(now.Add(-90*time.Second))), ">1m ago<", `datetime="`, ` UTC"`)
	contains(t, "a time to come", string(ago(now.Add(5*time.Hour))), ">in 5h <small>", now.Add(5*time.Hour).UTC().Format(">Jan 2, 15:04 UTC<"))
}
