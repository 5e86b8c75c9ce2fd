package wirejson_test

import (
	"encoding/base64"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/internal/wirejson"
)

// writables are values in a job, where RubyFault and PHPFault find a fault in them ("" for none),
// and what it is.
var writables = []struct{ value, ruby, php string }{
	{`"é 😀 \u00e9 \ud83d\ude00 \uD83D\uDE00 \\ud83d \\\\ \/ \u0000"`, "", ""},
	{`"a\ud83d"`, "2 half", "2 half"},
	{`"\udc00"`, "1 half", "1 half"},
	{`"\ud83d\u0041"`, "1 half", "1 half"}, // Ruby 3.1 takes it for another character
	{`"\ud83d\ud83d\ude00"`, "1 half", "1 half"},
	{`"\ude00\ud83d"`, "1 half", "1 half"},
	{`"\\\ud83d\n"`, "3 half", "3 half"},
	{`{"\ud83d":1}`, "2 half", "2 half"},
	{`["ok",{"a":["\udbff"]}]`, "13 half", "13 half"},
	{"\"\xff\"", "1 bytes", "1 bytes"},
	{"\"é\xed\xa0\xbd\"", "3 bytes", "3 bytes"},
	{`1e999`, "0 number", "0 number"},
	{`[1,-1E+999]`, "3 number", "3 number"},
	{`1e-999`, "", ""},
	{`0e9999`, "", ""},
	{`1.7976931348623157e308`, "", ""},
	{`1.7976931348623159e308`, "0 number", "0 number"},
	{`123456789012345678901234567890`, "", ""},
	{strings.Repeat("1", 400), "", "0 number"},
	{strings.Repeat("1", 400) + ".5", "0 number", "0 number"},
	{strings.Repeat("1", 400) + "e-300", "", ""},
	{strings.Repeat("[", 98) + strings.Repeat("]", 98), "", ""},
}

const before, behind = `{"class":"A","attempts":0,"args":[`, `]}`

func TestFaultsOfPeers(t *testing.T) {
	for _, w := range writables {
		for name, check := range map[string]struct {
			fault func([]byte) (int, string)
			want  string
		}{"Ruby": {wirejson.RubyFault, w.ruby}, "PHP": {wirejson.PHPFault, w.php}} {
			at, got := check.fault([]byte(before + w.value + behind))
			word, _, _ := strings.Cut(got, " ")
			if word != "" {
				text, _ := json.Marshal(at - len(before))
				word = string(text) + " " + word
			}
			if word != check.want {
				t.Errorf("%s, %.60q: %q, want %q", name, w.value, word, check.want)
			}
		}
	}
	for _, broken := range []string{`"`, `"a\`, `"\u`, `"\ud8`, `-`, `[-`, `"\ud83d`, `"\ud83d\`, `"\ud83d\u`, `nul`, "{\x00"} { // Set takes any text
		wirejson.RubyFault([]byte(broken))
	}
}

// What is found to be writable, real Ruby reads and writes.
func TestRubyWritesWhatItIsSaidToWrite(t *testing.T) {
	var lines []string
	for _, w := range writables {
		lines = append(lines, base64.StdEncoding.EncodeToString([]byte(before+w.value+behind)))
	}
	cmd := exec.CommandContext(t.Context(), "ruby", "-EUTF-8:UTF-8", "-rjson", "-e", `
		STDIN.each_line do |l|
			job = l.unpack1("m").force_encoding("UTF-8")
			begin
				puts JSON.generate(JSON.parse(job)).valid_encoding?
			rescue JSON::JSONError
				puts false
			end
		end`)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"))
	out, err := cmd.Output()
	if err != nil {
		redistest.Missing(t, err)
	}
	for i, answer := range strings.Fields(string(out)) {
		w := writables[i]
		if can := answer == "true"; can != (w.ruby == "") && w.value != `"\ud83d\u0041"` {
			t.Errorf("%.60q: Ruby can write it: %v, want %v", w.value, can, w.ruby == "")
		}
	}
}

// What is found to be writable, the script with which Laravel takes a job writes, and PHP reads.
func TestPHPReadsWhatItIsSaidToRead(t *testing.T) {
	rdb, _ := redistest.New(t)
	pop := redis.NewScript(`local d = cjson.decode(ARGV[1]); d['attempts'] = d['attempts'] + 1; return cjson.encode(d)`)
	for _, w := range writables {
		job := before + w.value + behind
		scriptErr := pop.Run(t.Context(), rdb, nil, job).Err()
		cmd := exec.CommandContext(t.Context(), "php", "-r", `json_decode(base64_decode(stream_get_contents(STDIN)), true); echo json_last_error();`)
		cmd.Stdin = strings.NewReader(base64.StdEncoding.EncodeToString([]byte(job)))
		out, err := cmd.Output()
		if err != nil {
			redistest.Missing(t, err)
		}
		if can := scriptErr == nil && string(out) == "0"; can != (w.php == "") {
			t.Errorf("%.60q: it comes through: %v (%v, %s), want %v", w.value, can, scriptErr, out, w.php == "")
		}
	}
}

func TestFaultAfterAnEdit(t *testing.T) {
	var o wirejson.Object
	raw := `{"a":"\ud83d","b":1e999,"c":1}`
	if at, fault := o.Parse([]byte(raw), new(wirejson.Room)); fault != "" {
		t.Fatal(at, fault)
	}
	want := func(at int, word string) {
		t.Helper()
		if got, fault := o.Fault(); got != at || !strings.HasPrefix(fault, word) || fault == "" != (word == "") {
			t.Errorf("%s: %d, %q, want %d, %q", o.Bytes(), got, fault, at, word)
		}
	}
	want(6, "half")
	o.SetInt("c", 2)
	want(6, "half")
	o.SetString("a", "x")
	want(13, "number")
	o.Delete("b")
	want(0, "")
	o.Set("d", []byte(`["\udc00"]`))
	want(21, "half")
}

// BenchmarkRubyFault is what each failure pays for the question.
func BenchmarkRubyFault(b *testing.B) {
	raw := []byte(wirejson.RubyPayloads[1])
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, fault := wirejson.RubyFault(raw); fault != "" {
			b.Fatal(fault)
		}
	}
}
