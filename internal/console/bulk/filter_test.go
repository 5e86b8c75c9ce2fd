package bulk

import (
	"testing"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestMatch(t *testing.T) {
	rdb, _ := redistest.New(t)
	at, last := time.Unix(1795000000, 0), time.Unix(1794990000, 0)
	q := inspect.New(rdb).Queue("default")
	job := &q.Job(`{"class":"Pay","queue":"low","jid":"abc123","args":["s3cr3t"],"tags":["vip"],"error_class":"Net::Timeout","error_message":"502 Bad Gateway","failed_at":1794000000.5,"retried_at":1794990000000}`).JobRecord
	for _, c := range []struct {
		filter Filter
		want   bool
	}{
		{Filter{}, true},
		{Filter{Class: "Pay", Queue: "default", Tag: "vip", Error: "bad gate", Since: at, Until: at.Add(1)}, true},
		{Filter{Error: "net::timeout"}, true},
		{Filter{Class: "Pa"}, false},
		{Filter{Queue: "low"}, false},
		{Filter{Tag: "v"}, false},
		{Filter{Error: "500"}, false},
		{Filter{Since: at.Add(1)}, false},
		{Filter{Until: at}, false},
		{Filter{Text: "PA"}, true},
		{Filter{Text: "ABC1"}, true},
		{Filter{Text: "gateway"}, true},
		{Filter{Text: "gateway", Class: "Paid"}, false},
		{Filter{Text: "s3cr3t"}, false},
		{Filter{Text: "S3cr3t", Args: AllArgs}, true},
		{Filter{FailedSince: last, FailedUntil: last.Add(1)}, true},
		{Filter{FailedSince: last.Add(1)}, false},
		{Filter{FailedUntil: last}, false},
	} {
		if got := c.filter.Match(job, at); got != c.want {
			t.Errorf("%s: %v", &c.filter, got)
		}
	}
	junk := &q.Job("junk").JobRecord
	if f := (Filter{Class: "Pay"}); f.Match(junk, at) {
		t.Error("junk is of a class")
	}
	f := Filter{Class: "Pay", Error: "502", Since: at, FailedUntil: at}
	if got := f.String(); got != `class "Pay", error "502", when since 2026-11-18T11:06:40Z, failed until 2026-11-18T11:06:40Z` {
		t.Error(got)
	}
	once := &q.Job(`{"class":"Pay","failed_at":1795000000}`).JobRecord // it was not retried yet
	for r, want := range map[*inspect.JobRecord]bool{once: true, junk: false, &q.Job(`{"class":"Pay"}`).JobRecord: false} {
		since, until := Filter{FailedSince: at}, Filter{FailedUntil: at.Add(1)}
		if since.Match(r, at) != want || until.Match(r, at) != want {
			t.Errorf("%s: not %v", r.Raw, want)
		}
	}
}

func TestParseTime(t *testing.T) {
	now, day := time.Unix(1795000000, 0), time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-11-18T11:06:40Z": now, "1795000000.5": now.Add(time.Second / 2), "1h30m": now.Add(-90 * time.Minute), "90": now.Add(-90 * time.Second),
		"2026-11-18": day, "2026-11-18 11:06": day.Add(11*time.Hour + 6*time.Minute), "today": day, "yesterday": day.Add(-24 * time.Hour),
	} {
		if got, err := ParseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "tomorrow", "-5", "1795000000000", "2026-11-32", "18.11.2026"} {
		if got, err := ParseTime(text, now); err == nil {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// A text is found as people see it and as they write it.
func TestTexts(t *testing.T) {
	rdb, _ := redistest.New(t)
	q := inspect.New(rdb).Queue("default")
	escaped := `{"class":"Mail","jid":"a1","args":[{"name": "M\u00fcller", "ids":[1, 2],"path":"a\/b","said":"say \"hi\", now","dir":"C:\\temp","smile":"\ud83d\ude00","half":"\ud83d."}],"error_message":"no M\u00fcller"}`
	plain := `{"class":"Mail","jid":"a1","args":[{"name":"Müller","ids":[1,2],"path":"a/b","said":"say \u0022hi\u0022, now","dir":"C:\u005ctemp","smile":"😀","half":"\uD83D."}],"error_message":"no Müller"}`
	for _, raw := range []string{escaped, plain} {
		job := &q.Job(raw).JobRecord
		for _, text := range []string{
			"Müller", "mÜLLER", `M\u00fcller`, `M\u00FCller`, `"name":"Müller"`, `"name": "M\u00fcller"`, `{ "name" : "Müller" , "ids" : [ 1, 2 ]`, `"ids": [1,2]`, "[1, 2]",
			`ller", "ids": [1`, "a/b", `a\/b`, `say "hi", now`, `say \"hi\"`, `C:\temp`, `C:\\temp`, "😀", `\ud83d\ude00`, `\uD83D.`, "no müller", `no M\u00fcller`,
		} {
			if f := (Filter{Text: text, Args: AllArgs}); !f.Match(job, time.Time{}) {
				t.Errorf("%s is not found in %s", text, raw)
			}
		}
		for _, text := range []string{"Miller", `say "hi",now`, "[1,2,3]", "[12]", "te mp", `hi"now`} {
			if f := (Filter{Text: text, Args: AllArgs}); f.Match(job, time.Time{}) {
				t.Errorf("%s is found in %s", text, raw)
			}
		}
		for _, text := range []string{"müller", `M\u00fcller`} {
			if f := (Filter{Error: text}); !f.Match(job, time.Time{}) {
				t.Errorf("the error %s is not found", text)
			}
		}
		if f := (Filter{Text: "temp"}); f.Match(job, time.Time{}) {
			t.Error("arguments are looked at without Args")
		}
	}
}
