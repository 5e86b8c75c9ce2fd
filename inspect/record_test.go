package inspect_test

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/inspect"
)

func record(t *testing.T, raw string) *inspect.QueuedJob {
	t.Helper()
	i, _, _ := start(t)
	return i.Queue("q").Job(raw)
}

func TestRecordFields(t *testing.T) {
	r := record(t, `{"class":"A::B","queue":"own","args":[1e3, "é"],"jid":"j","created_at":1695224882207,"enqueued_at":1695224883.5,"tags":["x",5,"é"],"error_class":"E","error_message":"m\n"}`)
	s := r.Summary()
	got := fmt.Sprintf("%s %s %s %v %v %q %s %q", r.JID, r.Queue, s.Args, s.CreatedAt.UnixMilli(), s.EnqueuedAt.UnixMilli(), s.Tags, s.ErrorClass, s.ErrorMessage)
	want := `j q [1e3, "é"] 1695224882207 1695224883500 ["x" "é"] E "m\n"`
	if got != want || r.Err != nil {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	r = record(t, `{"enqueued_at":5.5}`)
	s = r.Summary()
	if !s.CreatedAt.Equal(time.UnixMilli(5500)) || s.Args != nil || s.Tags != nil || s.ErrorClass != "" {
		t.Errorf("got %+v", r)
	}
	r = record(t, `{"tags":"x","args":{}}`)
	s = r.Summary()
	if !s.CreatedAt.IsZero() || !s.EnqueuedAt.IsZero() || !slices.Equal(s.Tags, []string{"x"}) || string(s.Args) != "[{}]" {
		t.Errorf("got %+v", r)
	}
}

// pack makes an error_backtrace.
func pack(text string) string {
	var buf bytes.Buffer
	z := zlib.NewWriter(&buf)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return base64.StdEncoding.EncodeToString(buf.Bytes())
}

func TestErrorBacktraceOfAllVersions(t *testing.T) {
	long := `["` + strings.Repeat("abc", 100) + `é","b"]`
	wrapped := pack(long)
	for i := 60; i < len(wrapped); i += 62 {
		wrapped = wrapped[:i] + `\n` + wrapped[i:]
	}
	for _, tt := range []struct {
		raw  string
		want []string
		bad  bool
	}{
		{`{}`, nil, false},
		{`{"error_backtrace":null}`, nil, false},
		{`{"error_backtrace":["a:1","b:2"]}`, []string{"a:1", "b:2"}, false},
		{`{"error_backtrace":"` + pack(long) + `"}`, []string{strings.Repeat("abc", 100) + "é", "b"}, false},
		{`{"error_backtrace":"` + wrapped + `"}`, []string{strings.Repeat("abc", 100) + "é", "b"}, false},
		{`{"error_backtrace":"!"}`, nil, true},
		{`{"error_backtrace":"aGk="}`, nil, true},
		{`{"error_backtrace":"` + pack(long)[:24] + `"}`, nil, true},
		{`{"error_backtrace":"` + pack(strings.Repeat("x", 9<<20)) + `"}`, nil, true},
		{`{"error_backtrace":"` + pack("no json") + `"}`, []string{}, false},
	} {
		got, err := record(t, tt.raw).ErrorBacktrace()
		if !slices.Equal(got, tt.want) || (err != nil) != tt.bad {
			t.Errorf("%.60s: got %q, %v", tt.raw, got, err)
		}
	}
}

func TestDisplay(t *testing.T) {
	const job = "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"
	for _, tt := range []struct{ raw, class, args string }{
		{`{"class":"A","args":[1]}`, "A", `[1]`},
		{`{"class":"A","display_class":"B","args":[1]}`, "B", `[1]`},
		{`{"class":"` + job + `","wrapped":"W","args":[{"job_class":"W","arguments":[1e3,{"b":2}]}]}`, "W", `[1e3,{"b":2}]`},
		{`{"class":"Sidekiq::ActiveJob::Wrapper","wrapped":"W","args":[{"arguments":[]}]}`, "W", `[]`},
		{`{"class":"` + job + `","wrapped":"ActionMailer::DeliveryJob","args":[{"arguments":["UserMailer","welcome","deliver_now",5]}]}`, "UserMailer#welcome", `[5]`},
		{`{"class":"` + job + `","wrapped":"ActionMailer::MailDeliveryJob","args":[{"arguments":["UserMailer","welcome","deliver_now",{"args":[5,6]}]}]}`, "UserMailer#welcome", `[5,6]`},
		{`{"class":"` + job + `","wrapped":"ActionMailer::MailDeliveryJob","args":[{"arguments":["UserMailer","welcome"]}]}`, "UserMailer#welcome", `[]`},
		{`{"class":"` + job + `","wrapped":"ActionMailer::MailDeliveryJob","args":[{"arguments":["UserMailer","welcome","x",7]}]}`, "UserMailer#welcome", `[7]`},
		{`{"class":"` + job + `","wrapped":"ActionMailer::MailDeliveryJob","args":[{"arguments":["UserMailer","welcome","deliver_now",{"params":{"user":{"_aj_globalid":"gid://app/User/7"},"_aj_symbol_keys":["user"]},"args":[5,6],"_aj_ruby2_keywords":["params","args"]}]}]}`, "UserMailer#welcome", `[{"user":"gid://app/User/7"},[5,6]]`},
		{`{"class":"` + job + `","wrapped":"ActionMailer::MailDeliveryJob","args":[{"arguments":["UserMailer","welcome","deliver_now",{"params":{"a":1}}]}]}`, "UserMailer#welcome", `[{"a":1},null]`},
		{`{"class":"` + job + `","wrapped":"W","args":[{"arguments":[{"_aj_globalid":"gid://app/User/7"},[{"_aj_globalid":"gid://app/User/8"}],{"_aj_globalid":"gid://app/User/9","b":1.0,"_aj_symbol_keys":["b"]},"_aj_",{}]}]}`, "W", `["gid://app/User/7",["gid://app/User/8"],{"b":1.0},"_aj_",{}]`},
		{`{"class":"A","args":[{"_aj_globalid":"gid://app/User/7"}]}`, "A", `[{"_aj_globalid":"gid://app/User/7"}]`},
		{`{"class":"` + job + `","wrapped":"W","args":[]}`, "W", `[]`},
		{`{"class":"` + job + `","wrapped":"ActionMailer::DeliveryJob","args":[5]}`, "ActionMailer::DeliveryJob", `[5]`},
		{`{"class":"A","encrypt":true,"args":[1,"secret"]}`, "A", `[1,"[encrypted data]"]`},
		{`{"class":"A","encrypt":false,"args":[1,"open"]}`, "A", `[1,"open"]`},
		{`{"class":"A","encrypt":true,"args":[]}`, "A", `[]`},
	} {
		r := record(t, tt.raw)
		if r.Summary().Class != tt.class || string(r.Summary().Args) != tt.args {
			t.Errorf("%s:\n got %s %s\nwant %s %s", tt.raw, r.Summary().Class, r.Summary().Args, tt.class, tt.args)
		}
	}
}
