package config

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/test/harness"
)

const hookFile = `
handlers:
  Hook:
    http:
      url: {env: HOOK_URL}
      headers: {X-Key: {file: keys/x}, X-Plain: plain}
      secret: {file: keys/secret}
`

// A handler of the file, with what other places keep for it, posts a job.
func TestHTTPHandlerOfTheFile(t *testing.T) {
	got := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		signed, sum, _ := strings.Cut(r.Header.Get("Troupe-Signature"), ",v1=")
		mac := hmac.New(sha256.New, []byte("s3cret"))
		fmt.Fprintf(mac, "%s.%s", strings.TrimPrefix(signed, "t="), b)
		got <- fmt.Sprint(r.URL.Path, " ", r.Header["X-Key"], r.Header["X-Plain"], " ", sum == fmt.Sprintf("%x", mac.Sum(nil)), " ", string(b))
	}))
	defer server.Close()
	inDir(t, "troupe.yml", hookFile, "keys/x", "k1\r\n", "keys/secret", "s3cret\n")
	s := load(t, Flags{}, map[string]string{"HOOK_URL": server.URL + "/jobs"})
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	c := harness.Must(s.Daemon(rdb, zerolog.Nop(), io.Discard))(t)
	e, _ := c.Registry.Lookup("Hook")
	if e.Options.Timeout != 0 {
		t.Error("the request's timeout is given to the daemon, too")
	}
	p := harness.Must(troupe.ParsePayload([]byte(`{"class":"Hook"}`)))(t)
	harness.OK(t, e.Handler.Perform(context.Background(), p))
	if want := `/jobs [k1] [plain] true {"class":"Hook"}`; <-got != want {
		t.Errorf("want %s", want)
	}
}

func TestLoadHTTPFaults(t *testing.T) {
	inDir(t, "troupe.yml", hookFile+`  Other:
    http:
      url: {env: BAD_URL}
      headers: {X-Key: {env: TWO_LINES}}
      secret: {env: EMPTY}
`, "keys/x", "\n", "keys/secret/dir", "")
	_, err := Load(Flags{}, vars(map[string]string{"BAD_URL": "hunter2", "TWO_LINES": "hunter2\nhunter2"}))
	want := `troupe.yml:5: handlers.Hook.http.url.env is "HOOK_URL", expected a variable that is set and not empty
troupe.yml:6: handlers.Hook.http.headers.X-Key.file is "keys/x", expected a file with the value (it is empty)
troupe.yml:7: handlers.Hook.http.secret.file is "keys/secret", expected a file with the value (is a directory)
troupe.yml:10: handlers.Other.http.url is "$BAD_URL", expected a URL that begins with http:// or https://
troupe.yml:11: handlers.Other.http.headers.X-Key is no header that can be added, expected a value without line breaks and control characters
troupe.yml:12: handlers.Other.http.secret.env is "EMPTY", expected a variable that is set and not empty`
	if err == nil {
		t.Fatal("no error")
	}
	if diff := gocmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
}

func TestLoadHTTPSecretTooLong(t *testing.T) {
	inDir(t, "troupe.yml", hookFile, "keys/x", strings.Repeat("x", maxText+1), "keys/secret", "s")
	_, err := Load(Flags{}, vars(map[string]string{"HOOK_URL": "http://h"}))
	if err == nil || !strings.Contains(err.Error(), "longer than 65536 bytes") {
		t.Error(err)
	}
}

// However settings are printed, credentials are not.
func TestSettingsPrintNoSecret(t *testing.T) {
	inDir(t, "troupe.yml", `
handlers:
  Hook:
    http:
      url: "https://bob:hunter2@hooks.internal/jobs?key=hunter2"
      headers: {X-Key: {env: KEY}, X-Plain: hunter2}
      secret: {file: secret}
`, "secret", "hunter2")
	s := load(t, Flags{}, map[string]string{"KEY": "hunter2"})
	if s.Handlers[0].HTTP.Secret.Value != "hunter2" {
		t.Fatal("the secret was not read")
	}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		h := s.Handlers[0].HTTP
		fmt.Fprintf(&out, verb+verb+verb, h.Secret, h.Headers, *h)
	}
	b := harness.Must(json.Marshal(s.Handlers))(t)
	log := zerolog.New(&out)
	log.Info().Any("handlers", s.Handlers).Send()
	harness.OK(t, s.Summary(&out))
	if text := out.String() + string(b); strings.Contains(text, "hunter2") {
		t.Errorf("a credential in %s", text)
	}
}
