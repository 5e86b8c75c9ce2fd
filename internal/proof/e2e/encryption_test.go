package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// rubySeal is the module of docs/encryption.md, with a key.
func rubySeal(t *testing.T, key []byte) string {
	t.Helper()
	text := string(harness.Must(os.ReadFile(filepath.Join("..", "..", "..", "docs", "encryption.md")))(t))
	_, text, found := strings.Cut(text, "```ruby\n")
	text, _, ended := strings.Cut(text, "```\n")
	if !found || !ended {
		t.Fatal("docs/encryption.md has no block of Ruby")
	}
	return fmt.Sprintf("ENV[%q] = %q\n%s\n", "TROUPE_KEY_1", base64.StdEncoding.EncodeToString(key), text)
}

// What Go and the command seal Ruby opens, and what Ruby seals the daemon opens, for its handlers only.
func TestRubyAndTroupeOpenWhatTheOtherSeals(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	key := []byte("0123456789abcdef0123456789abcde\n")
	dir := t.TempDir()
	keyFile, configFile := filepath.Join(dir, "key"), filepath.Join(dir, "troupe.yml")
	config := "log: json\nencryption: {keys: {1: {file: " + keyFile + "}}}\nhandlers:\n" +
		"  Secret: {exec: [/bin/cat]}\n  Fails: {exec: [/bin/sh, -c, 'exit 1']}\n"
	harness.OK(t, os.WriteFile(keyFile, []byte(base64.StdEncoding.EncodeToString(key)+"\n"), 0o600))
	harness.OK(t, os.WriteFile(configFile, []byte(config), 0o600))
	ruby := rubySeal(t, key)

	c := client.New(rdb, client.WithEncryption(troupe.Encryption{Keys: map[int][]byte{1: key}}))
	_, err := c.PushClass(t.Context(), "Secret", []any{1, map[string]any{"card": "4711-go", "ü": []any{1.5, nil}}}, client.Encrypt(true), client.Queue("ruby"))
	harness.OK(t, err)
	pushed := procs.Troupe(t, nil, "push", "-C", configFile, "--redis", url, "--encrypt", "--queue", "ruby", "Secret", "2", `{"card":"4711-command"}`)
	harness.Equal(t, "exit code of push", pushed.Exit(soon), 0)
	type opened struct {
		Args [][]any
		Text string
		Refused,
		Class []string
	}
	got := redistest.RubyJSON[opened](t, url, ruby+`
		jobs = Sidekiq::Queue.new("ruby").to_a
		refused = []
		begin; TroupeSeal.open("Other", jobs[0].args.last); rescue OpenSSL::Cipher::CipherError => e; refused << "class"; end
		begin
			key = TroupeSeal::KEYS["1"]; TroupeSeal::KEYS["1"] = "k" * 32
			TroupeSeal.open("Secret", jobs[0].args.last)
		rescue OpenSSL::Cipher::CipherError => e
			refused << "key"
		end
		TroupeSeal::KEYS["1"] = key
		text = jobs.map(&:value).join
		args = jobs.map { |j| [j.args.first, TroupeSeal.open(j.klass, j.args.last)] }
		mw = []
		job = JSON.parse(jobs[0].value)
		begin; TroupeOpen.new.call(nil, job, "ruby") { mw << job["args"].last["card"]; raise "no" }; rescue RuntimeError; end
		mw << job["args"].last[0, 15]
		Sidekiq::Client.push("class" => "Secret", "args" => [3, TroupeSeal.seal("Secret", {"card" => "4711-ruby"})])
		Sidekiq::Client.push("class" => "Fails", "args" => [4, TroupeSeal.seal("Fails", {"card" => "4711-fails"})])
		show(Args: args, Text: text, Refused: refused, Class: mw)`)
	if want := "[[2 map[card:4711-command]] [1 map[card:4711-go ü:[1.5 <nil>]]]]"; fmt.Sprint(got.Args) != want && fmt.Sprint(got.Args) != "[[1 map[card:4711-go ü:[1.5 <nil>]]] [2 map[card:4711-command]]]" {
		t.Errorf("Ruby has opened %v, want %s", got.Args, want)
	}
	harness.Equal(t, "refused by Ruby", fmt.Sprint(got.Refused), "[class key]")
	if fmt.Sprint(got.Class) != "[4711-command troupe.enc.1:1:]" && fmt.Sprint(got.Class) != "[4711-go troupe.enc.1:1:]" {
		t.Errorf("the middleware: %v", got.Class)
	}
	if strings.Contains(got.Text, "4711") {
		t.Errorf("Redis has %s", got.Text)
	}

	p := procs.Troupe(t, nil, "run", "-C", configFile, "--redis", url)
	p.Ready()
	testkit.Await(t, "one is done, and one to be retried", func() bool {
		return len(p.Logged("job output")) > 0 && rdb.ZCard(t.Context(), "retry").Val() == 1 && rdb.LLen(t.Context(), "queue:default").Val() == 0
	})
	if line := fmt.Sprint(p.Logged("job output")); !strings.Contains(line, `"args":[3,{"card":"4711-ruby"}]`) {
		t.Errorf("the program was given %s", line)
	}
	raw := rdb.ZRange(t.Context(), "retry", 0, -1).Val()[0]
	if !strings.Contains(raw, `"args":[4,"troupe.enc.1:1:`) || strings.Contains(raw, "4711") {
		t.Errorf("the retry set has %s", raw)
	}
	p.Stop(soon)
	job := harness.Must(troupe.ParsePayload([]byte(raw)))(t)
	for _, args := range [][]string{{"jobs", "list", "retry"}, {"jobs", "list", "retry", "--args", "show"}, {"jobs", "show", job.JID()}, {"explain", job.JID()}} {
		out := procs.Troupe(t, nil, append(args, "--redis", url)...)
		out.Exit(soon)
		if text := out.Stdout(); strings.Contains(text, "4711") || args[0] == "jobs" && !strings.Contains(text, "sealed (key version 1)") {
			t.Errorf("%v prints\n%s", args, text)
		}
	}
}

// A key is not in the file, and not given to programs.
func TestKeysAreCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]string{
		"a key does not stand in this file":                  "encryption: {keys: {1: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}}\n",
		"a variable that is set and not empty":               "encryption: {keys: {1: {env: NO_SUCH_KEY}}}\n",
		"32 bytes in base64":                                 "encryption: {keys: {1: {env: SHORT_KEY}}}\n",
		"a version, a number from 1":                         "encryption: {keys: {one: {env: SHORT_KEY}}}\n",
		"a version that keys has, or nothing":                "encryption: {active: 2, keys: {1: {env: GOOD_KEY}}}\n",
		"a variable that is no secret of the daemon (it is ": "encryption: {keys: {1: {env: GOOD_KEY}}}\nenv: [GOOD_KEY]\n",
	} {
		file := filepath.Join(t.TempDir(), "troupe.yml")
		harness.OK(t, os.WriteFile(file, []byte(config+"handlers: {A: {builtin: noop}}\n"), 0o600))
		p := procs.Troupe(t, []string{"SHORT_KEY=abcd", "GOOD_KEY=" + base64.StdEncoding.EncodeToString(make([]byte, 32))}, "check", "-C", file)
		if code := p.Exit(soon); code == 0 {
			t.Errorf("%s is let through", config)
		}
		if text := p.Stderr(); !strings.Contains(text, want) || strings.Contains(text, "MDEyMz") || strings.Contains(text, "abcd") {
			t.Errorf("%s\nprints %s\nwant %s", config, text, want)
		}
	}
}
