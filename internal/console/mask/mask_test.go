package mask

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
)

func TestArgs(t *testing.T) {
	deep := strings.Repeat("[", 60) + `"s"` + strings.Repeat("]", 60)
	for _, c := range []struct{ args, how, want string }{
		{`[12345678901234567890,1.50,"a",null,{}]`, Mask, `[12345678901234567890,1.50,"a",null,{}]`},
		{`[{"user":"x","Password":"p","api_key":1,"n":{"accessToken":{"a":1}},"list":[{"card-number":4}]}]`, Mask,
			`[{"user":"x","Password":"[masked]","api_key":"[masked]","n":{"accessToken":"[masked]"},"list":[{"card-number":"[masked]"}]}]`},
		{`[{"password":"p"},2]`, Hide, `["[2 hidden]"]`},
		{`[{"password":"p"}]`, Show, `[{"password":"p"}]`},
		{`["{\"user\":1,\"password\": \"p\"","https://x/?a=1&api_key=2","the password is wrong","token-bucket"]`, Mask,
			`["[masked]","[masked]","the password is wrong","token-bucket"]`},
		{deep, Mask, strings.Repeat("[", 51) + Masked + strings.Repeat("]", 51)},
	} {
		if got := string(New(c.how, nil, nil).Args(json.RawMessage(c.args))); got != c.want {
			t.Errorf("%s %s: %s, expected %s", c.how, c.args, got, c.want)
		}
	}
}

func TestRules(t *testing.T) {
	for _, c := range []struct{ args, how, class, want string }{
		{`[1, 12345678901234567890 ,"three",{"patientName":"x","b":2.50}]`, Mask, "Pay", `["[masked]",12345678901234567890,"[masked]",{"patientName":"[masked]","b":2.50}]`},
		{`[1,{"password":"p"}]`, Mask, "Other", `[1,{"password":"[masked]"}]`},
		{`[]`, Mask, "Pay", `[]`},
		{`{"no":"array"}`, Mask, "Pay", `[]`},
		{`[1]`, Show, "Pay", `[1]`},
	} {
		m := New(c.how, []string{"Patient_Name"}, map[string][]int{"Pay": {1, 3}})
		if got := string(m.Args(json.RawMessage(c.args), c.class)); got != c.want {
			t.Errorf("%s of %s: %s, expected %s", c.args, c.class, got, c.want)
		}
	}
}

func TestText(t *testing.T) {
	m := New(Mask, []string{"patient"}, nil)
	for text, want := range map[string]string{
		"502 Bad Gateway":                          "",
		"the password is wrong":                    "",
		"JWT::InvalidToken: it has expired":        "",
		"undefined method run for Token::Cleaner":  "",
		"app/lib/token.rb:12:in 'call'":            "",
		"password:":                                "",
		"GET https://x/?a=1&api_key=s3cr3t: 502":   "GET https://x/?a=1&api_key=[masked]",
		`{"password" => "s3cr3t"}`:                 `{"password" =>[masked]`,
		`{"a":1,"password_confirmation":"s3cr3t"}`: `{"a":1,"password_confirmation":[masked]`,
		`user%5Bpassword%5D=s3cr3t`:                `user%5Bpassword%5D=[masked]`,
		"Authorization: Bearer s3cr3t\nmore":       "Authorization:[masked]",
		"private key:\n-----BEGIN\ns3cr3t":         "private key:[masked]",
		"Key (token)=(s3cr3t) already exists":      "Key (token)=[masked]",
		"Net::HTTPError: token=s3cr3t":             "Net::HTTPError: token=[masked]",
		`no such row for "patient_id": "s3cr3t"`:   `no such row for "patient_id":[masked]`,
		"cookies: a=s3cr3t":                        "cookies:[masked]",
	} {
		if want == "" {
			want = text
		}
		if got := m.Text(text); got != want {
			t.Errorf("%q: %q, expected %q", text, got, want)
		}
	}
}

// record is a job as it is read.
func record(t *testing.T, raw string) *inspect.JobRecord {
	t.Helper()
	return &inspect.New(redis.NewClient(&redis.Options{})).Queue("q").Job(raw).JobRecord
}

// What is secret in any field of a job is in none of its forms, and the rest is.
func TestJob(t *testing.T) {
	rules := map[string][]int{"Pay": {2}, "Notifier#welcome": {1}, "GuestsCleanup": {1}}
	for name, c := range map[string]struct{ raw, payload, args string }{
		"plain": {`{"class":"Pay","args":[{"token":"CANARY"},"CANARY",3],"lock_args":[1,"CANARY"],"tags":["vip","token=CANARY"],"jid":"a"}`,
			`{"class":"Pay","args":[{"token":"[masked]"},"[masked]",3],"lock_args":[1,"[masked]"],"tags":["vip","token=[masked]"],"jid":"a"}`, `[{"token":"[masked]"},"[masked]",3]`},
		"wrapped": {`{"class":"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper","wrapped":"GuestsCleanup","args":[{"job_class":"GuestsCleanup","arguments":["CANARY",{"api_key":"CANARY","b":1}],"locale":"en"}]}`,
			`{"class":"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper","wrapped":"GuestsCleanup","args":[{"job_class":"GuestsCleanup","arguments":["[masked]",{"api_key":"[masked]","b":1}],"locale":"en"}]}`, `["[masked]",{"api_key":"[masked]","b":1}]`},
		"mail": {`{"class":"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper","wrapped":"ActionMailer::MailDeliveryJob","args":[{"arguments":["Notifier","welcome","deliver_now",{"args":["CANARY",2]}]}]}`,
			`{"class":"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper","wrapped":"ActionMailer::MailDeliveryJob","args":[{"arguments":["[masked]","welcome","deliver_now","[masked]"]}]}`, `["[masked]",2]`},
		"mail with params": {`{"class":"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper","wrapped":"ActionMailer::MailDeliveryJob","args":[{"arguments":["Notifier","welcome","deliver_now",{"params":{"token":"CANARY"},"args":["CANARY",2]}]}]}`,
			`{"class":"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper","wrapped":"ActionMailer::MailDeliveryJob","args":[{"arguments":["[masked]","welcome","deliver_now","[masked]"]}]}`, `["[masked]",["[masked]",2]]`},
		"encrypted": {`{"class":"Sealed","encrypt":true,"args":[1,"CANARY"]}`, `{"class":"Sealed","encrypt":true,"args":[1,"[encrypted data]"]}`, `[1,"[encrypted data]"]`},
		"fields": {`{"class":"A","args":[],"cattr":{"user":1,"secret":"CANARY"},"api_key":"CANARY","note":"password=CANARY","error_class":"JWT::InvalidToken","error_message":"token: CANARY","error_backtrace":["a.rb:1","token=CANARY"]}`,
			`{"class":"A","args":[],"cattr":{"user":1,"secret":"[masked]"},"api_key":"[masked]","note":"[masked]","error_class":"JWT::InvalidToken","error_message":"token:[masked]","error_backtrace":["a.rb:1","token=[masked]"]}`, `[]`},
		"no job": {`{"password":"CANARY"`, Masked, `["[masked]"]`},
	} {
		r := record(t, c.raw)
		m := New(Mask, nil, rules)
		if got := m.Bytes(r); got != c.payload {
			t.Errorf("%s: %s, expected %s", name, got, c.payload)
		}
		s := m.Summary(r)
		harness.Equal(t, name+": arguments", string(s.Args), c.args)
		lines, err := m.Backtrace(r)
		if text := fmt.Sprint(s, lines, err); strings.Contains(text, "CANARY") {
			t.Errorf("%s: %s", name, text)
		}
		if got := New(Hide, nil, rules).Bytes(r); strings.Contains(got, "CANARY") {
			t.Errorf("%s, hidden: %s", name, got)
		}
		for _, all := range []*Masker{nil, New(Show, nil, rules)} {
			harness.Equal(t, name+", expected its bytes", all.Bytes(r), c.raw)
		}
	}
}

// Of a field that is too long only the length is told.
func TestLong(t *testing.T) {
	text := strings.Repeat("x", 1<<20)
	r := record(t, `{"class":"A","args":["`+text+`"],"cattr":{"a":"`+text+`"},"error_message":"`+text+`","jid":"a"}`)
	m := New(Mask, nil, nil)
	s := m.Summary(r)
	if string(s.Args) != `["[1.0 MB, too long to show]"]` || len(s.ErrorMessage) > most+3 || len(m.Bytes(r)) > 200 {
		t.Errorf("%d %d %.300s", len(s.Args), len(s.ErrorMessage), m.Bytes(r))
	}
}
