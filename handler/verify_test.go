package handler

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// The recipe for receivers in Go, as docs/handlers.md has it.

// verify returns the body of a request that is troupe's, unchanged, and at most
// five minutes old.
func verify(secret []byte, r *http.Request) (body []byte, err error) {
	if body, err = io.ReadAll(http.MaxBytesReader(nil, r.Body, 10<<20)); err != nil {
		return nil, err
	}
	part := map[string]string{}
	for p := range strings.SplitSeq(r.Header.Get("Troupe-Signature"), ",") {
		name, value, _ := strings.Cut(p, "=")
		part[name] = value
	}
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s", part["t"], body)
	if got, _ := hex.DecodeString(part["v1"]); !hmac.Equal(got, mac.Sum(nil)) {
		return nil, errors.New("bad signature")
	}
	sent, _ := strconv.ParseInt(part["t"], 10, 64)
	if time.Since(time.Unix(sent, 0)).Abs() > 5*time.Minute {
		return nil, errors.New("too old")
	}
	return body, nil
}

// The sample was made with openssl dgst -sha256 -hmac.
func TestSignature(t *testing.T) {
	got := sign([]byte("whsec_1"), time.Unix(1795225033, 999), []byte(`{"class":"é"}`))
	if want := "t=1795225033,v1=1bb168b7f518e9baead2f43027fb16c8dca301a8002eec6811e3d27c84c73d3d"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Each request is signed with its own time, and its body is the one that was signed.
func TestHTTPSignsEachRequest(t *testing.T) {
	got := make(chan error, 1)
	h := posting(t, HTTPOptions{Secret: []byte("s1")}, func(_ http.ResponseWriter, r *http.Request) {
		_, err := verify([]byte("s1"), r)
		got <- err
	})
	for age, want := range map[time.Duration]string{0: "<nil>", 290 * time.Second: "<nil>", 310 * time.Second: "too old", -310 * time.Second: "too old"} {
		h.now = func() time.Time { return time.Now().Add(-age) }
		harness.OK(t, h.Perform(t.Context(), job(sample)))
		if err := soon(t, got, "request"); fmt.Sprint(err) != want {
			t.Errorf("%s old: %v, want %s", age, err, want)
		}
	}
}

type delivery struct{ Secret, Signature, Body, Want string }

func deliveries() []delivery {
	const secret = "s1 é"
	now := time.Now()
	body := `{"class":"Webhook","args":["é <>\u2028"]}` + "\n"
	signed := sign([]byte(secret), now, []byte(body))
	at := func(d time.Duration) string { return sign([]byte(secret), now.Add(d), []byte(body)) }
	return []delivery{
		{secret, signed, body, "ok"},
		{secret, signed + ",v2=future", body, "ok"},
		{secret, at(-4 * time.Minute), body, "ok"},
		{secret, at(-6 * time.Minute), body, "too old"},
		{secret, at(6 * time.Minute), body, "too old"},
		{secret, signed, body + " ", "bad signature"},
		{secret, signed, "", "bad signature"},
		{"other", signed, body, "bad signature"},
		{secret, strings.Replace(signed, "t=", "t=1", 1), body, "bad signature"},
		{secret, signed[:len(signed)-1], body, "bad signature"},
		{secret, regexp.MustCompile("v1=.*").ReplaceAllString(signed, "v1="), body, "bad signature"},
		{secret, "t=5", body, "bad signature"},
		{secret, "", body, "bad signature"},
	}
}

// compare compares what a recipe said of each delivery.
func compare(t *testing.T, all []delivery, said []string) {
	t.Helper()
	var want []string
	for _, d := range all {
		want = append(want, d.Want)
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
}

func TestRecipeInGo(t *testing.T) {
	all := deliveries()
	var said []string
	for _, d := range all {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(d.Body))
		r.Header.Set("Troupe-Signature", d.Signature)
		body, err := verify([]byte(d.Secret), r)
		switch {
		case err != nil:
			said = append(said, err.Error())
		case string(body) == d.Body:
			said = append(said, "ok")
		}
	}
	compare(t, all, said)
}

func TestRecipeInRuby(t *testing.T) {
	runRecipe(t, "ruby", "-W0", "-EUTF-8:UTF-8", "-rjson", "-e", `
		load "testdata/verify/verify.rb"
		JSON.parse($stdin.read).each do |d|
		  verify!(d["Secret"], d["Signature"], d["Body"])
		  puts "ok"
		rescue => e
		  puts e.message
		end`)
}

func TestRecipeInPHP(t *testing.T) {
	runRecipe(t, "php", "-r", `
		require 'testdata/verify/verify.php';
		foreach (json_decode(stream_get_contents(STDIN), true) as $d) {
			try {
				verify($d['Secret'], $d['Signature'], $d['Body']);
				echo "ok\n";
			} catch (RuntimeException $e) {
				echo $e->getMessage(), "\n";
			}
		}`)
}

func runRecipe(t *testing.T, program string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		redistest.Missing(t, err)
	}
	all := deliveries()
	in := harness.Must(json.Marshal(all))(t)
	cmd := exec.CommandContext(t.Context(), path, args...)
	var errs strings.Builder
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, errs.String())
	}
	compare(t, all, strings.Split(strings.TrimSpace(string(out)), "\n"))
}

// What the manual shows is what was tested.
func TestRecipesOfTheManual(t *testing.T) {
	manual := harness.Must(os.ReadFile("../docs/handlers.md"))(t)
	for language, file := range map[string]string{
		"go": "verify_test.go", "ruby": "testdata/verify/verify.rb", "php": "testdata/verify/verify.php",
	} {
		source := harness.Must(os.ReadFile(file))(t)
		blocks := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(manual), -1)
		if len(blocks) != 1 || !strings.Contains(string(source), blocks[0][1]) {
			t.Errorf("docs/handlers.md has %d blocks of %s, expected one that is in %s", len(blocks), language, file)
		}
	}
}
