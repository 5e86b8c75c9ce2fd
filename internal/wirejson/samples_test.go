package wirejson

import "testing"

// ScanSamples seed the fuzz target and are checked on every run.
var ScanSamples = []string{
	``, ` `, `{}`, `[]`, `{"a":1}`, ` { "a" : [ 1 , 2.5 , -0 , 1e9 , 1E-7 , 0.1e+3 ] } `,
	`{"a":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\ud800"}`, `{"a":{"b":{"c":null}}}`, `[true,false,null]`,
	`{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":-}`, `{"a":1e}`, `{"a":1e+}`, `{"a":+1}`, `{"a":0x1}`,
	`{"a":tru}`, `{"a":nulll}`, `{"a":NaN}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"\u12G4"}`, `{"a":"`,
	`{"a":"\`, `{"a":"\u`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{"a":[1,]}`, `{"a":[,]}`,
	`[1 2]`, `[1`, `[`, `{`, `{]`, `[}`, `{"a":1}}`, `{"a":1}//`, "{\"a\":\"\t\"}", "{\"a\":\"\x7f\xff\xc3\"}",
	"{\"a\":\"1234567\xe9\"}", "{\"a\":\"12345678\x1f\"}", "{\"a\xa2\xdc\":1}", "{\"\x00\":1}", "\xef\xbb\xbf{}", "{\v}",
	`"x"`, `5`, `null`, `{"a":1,"a":2}`, `{"":0}`,
}

// OddTexts are texts that a job may hold and that a decode into Go values would change.
var OddTexts = []string{
	`0`, `-0`, `-0.0`, `1e3`, `1E+3`, `1.10`, `123456789012345678901234567890`, `0.1000000000000000055511151231257827`,
	`"\u003c\/\u2028"`, "\"\u2028\u2029 <&> é 😀\"", `"\ud83d\ude00\u0000"`, `""`, `null`, `true`, `false`, `[ ]`, `{ "a" : 1 , "a" : 2 }`,
}

// RubyPayloads are a push and a failed job as Ruby's Sidekiq wrote them.
var RubyPayloads = []string{
	`{"retry":true,"queue":"default","class":"RecordJob","args":[1],"jid":"0d6ec0d6a7e2450f8a158dc8","created_at":1795224881.1534805,"enqueued_at":1795224881.153557}`,
	`{"retry":3,"queue":"low","retry_queue":"low","class":"RetryQueueJob","args":[],"jid":"1d568ab56a49fd934a79f42b","created_at":1795225014.209691,"enqueued_at":1795225014.2097554,"error_message":"go low","error_class":"RuntimeError","failed_at":1795225014.2125583,"retry_count":0}`,
}

func mustParse(t testing.TB, raw string) *Object {
	t.Helper()
	o := new(Object)
	if at, fault := o.Parse([]byte(raw), new(Room)); fault != "" {
		t.Fatalf("%s: %s at %d", raw, fault, at)
	}
	return o
}
