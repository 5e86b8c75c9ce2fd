package web

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/web/internal/limiter"
	"github.com/troupehq/troupe/web/internal/users"
)

func logInForm(name, text, next string) string {
	return url.Values{"name": {name}, "password": {text}, "next": {next}}.Encode()
}

// A person signs in by the form, acts, and signs out.
func TestLogIn(t *testing.T) {
	set, _ := withUsers(t)
	s := start(t, set)
	status, form, _ := s.do(http.MethodGet, "/queues?x=1", "")
	harness.Equal(t, "before", status, http.StatusUnauthorized)
	contains(t, "the form", form, `name="password"`, `value="/queues?x=1"`, `action="/login"`)
	hasNot(t, "the form", form, "Sign out", "class=\"version\"")

	status, text, _ := s.do(http.MethodPost, "/login", logInForm("ann", goodPassword, "/queues?x=1"))
	if status != http.StatusOK || !strings.Contains(text, "<h1>Queues") {
		t.Fatalf("after: %d\n%s", status, text)
	}
	contains(t, "the page", text, "Sign out", "ann is signed in")
	at, _ := url.Parse(s.base)
	var id string
	for _, c := range s.Jar.Cookies(at) {
		if c.Name == localCookie {
			id = c.Value
		}
	}
	if id == "" {
		t.Fatal("no cookie")
	}
	key := keys.WebSession(users.Digest(id))
	if ttl := s.rdb.TTL(t.Context(), key).Val(); ttl <= 11*time.Hour || ttl > 12*time.Hour {
		t.Errorf("the session is for %v", ttl)
	}
	if raw := s.rdb.Get(t.Context(), key).Val(); strings.Contains(raw, id) || strings.Contains(raw, goodPassword) {
		t.Errorf("Redis has %s", raw)
	}
	if status, text := s.post("/queues/q/pause", nil, "Accept", "application/json"); status != http.StatusOK {
		t.Errorf("an action: %d %s", status, text)
	}
	if status, _ := s.post("/logout", nil); status != http.StatusOK {
		t.Errorf("sign out: %d", status)
	}
	if status, _, _ := s.do(http.MethodGet, "/queues", "", "Cookie", "troupe="+id); status != http.StatusUnauthorized {
		t.Errorf("with the old cookie: %d", status)
	}
}

// The cookie is one that only this host gets, over TLS, and a session that was there before is not used on.
func TestCookie(t *testing.T) {
	set, _ := withUsers(t)
	s := start(t, set, func(o *Options) { o.TrustProxies = []string{"10.1.0.0/16"} })
	tls := []string{"From", "10.1.2.3:4", "Host", "jobs.example", "X-Forwarded-Proto", "https", "X-Forwarded-For", "192.0.2.1", "Sec-Fetch-Site", "same-origin"}
	for name, c := range map[string]struct {
		headers []string
		want    string
	}{
		"tls":   {tls, "__Host-troupe=; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict"},
		"local": {[]string{"Sec-Fetch-Site", "same-origin"}, "troupe=; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"},
	} {
		known := s.signIn("vera", time.Hour) // what somebody may have put into the browser
		cookie, _, _ := strings.Cut(c.want, "=")
		w := s.ask(s.h, http.MethodPost, "/login", logInForm("ann", goodPassword, "//evil.example"), append(c.headers, "Cookie", cookie+"="+known)...)
		set := w.Header()["Set-Cookie"]
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" {
			t.Fatalf("%s: %d to %s\n%s", name, w.Code, w.Header().Get("Location"), w.Body)
		}
		value, rest, _ := strings.Cut(set[0], ";")
		if _, id, _ := strings.Cut(value, "="); len(id) < 26 || id == known || cookie+"=;"+rest != c.want {
			t.Errorf("%s: %s, expected %s", name, set[0], c.want)
		}
		if s.rdb.Exists(t.Context(), keys.WebSession(users.Digest(known))).Val() != 0 {
			t.Errorf("%s: the session from before is there", name)
		}
	}
	// each name counts only where it belongs, and nobody signs in over http from elsewhere
	ann := s.signIn("ann", time.Hour)
	if w := s.ask(s.h, http.MethodGet, "/queues", "", append(tls, "Cookie", "troupe="+ann)...); w.Code != http.StatusUnauthorized {
		t.Errorf("the local cookie over TLS: %d", w.Code)
	}
	for _, headers := range [][]string{
		{"From", "192.0.2.1:1", "Host", "jobs.example", "Sec-Fetch-Site", "same-origin"},
		{"Origin", "https://jobs.example", "Sec-Fetch-Site", "same-origin"},
	} {
		w := s.ask(s.h, http.MethodPost, "/login", logInForm("ann", goodPassword, ""), headers...)
		if w.Code != http.StatusForbidden || w.Header()["Set-Cookie"] != nil {
			t.Errorf("over http %v: %d", headers, w.Code)
		}
	}
}

// Another password, a removal and a lower role count at once; a faulty file changes nothing.
func TestUsersFileChanges(t *testing.T) {
	set, _ := withUsers(t)
	var log harness.Buffer
	var path string
	s := start(t, set, func(o *Options) { o.Logger, path = zerolog.New(&log), o.Users })
	ann, vera, otto := s.signIn("ann", time.Hour), s.signIn("vera", time.Hour), s.signIn("otto", time.Hour)
	before := harness.Must(os.ReadFile(path))(t)
	write := func(text string) {
		harness.OK(t, os.WriteFile(path, []byte(text), 0o600))
		s.h.users.Every = 0 // as if a second had passed
	}
	status := func(id, path string) int { return s.ask(s.h, http.MethodGet, path, "", "Cookie", "troupe="+id).Code }
	write("nonsense\n" + string(before))
	harness.Equal(t, "with a faulty file", status(ann, "/audit"), http.StatusOK)
	contains(t, "the log", log.String(), "stay as they were", `:1: kind is \"nonsense\", expected user or token`)
	ottoLine := strings.SplitAfter(string(before), "\n")[3]
	write(userLine("ann", Admin, "another password") + strings.Replace(ottoLine, "operator", "viewer", 1))
	for id, want := range map[string]int{ann: 401, vera: 401, otto: 200} {
		if got := status(id, "/queues"); got != want {
			t.Errorf("%d, expected %d", got, want)
		}
	}
	if w := s.ask(s.h, http.MethodPost, "/queues/q/pause", "", "Cookie", "troupe="+otto, "Sec-Fetch-Site", "same-origin"); w.Code != http.StatusForbidden {
		t.Errorf("with a lower role: %d", w.Code)
	}
	harness.OK(t, os.Remove(path))
	harness.Equal(t, "without the file", status(otto, "/queues"), http.StatusOK)
}

// A faulty file names line, field and value, and never a hash.
func TestUsersFileFaults(t *testing.T) {
	good := userLine("ann", Admin, goodPassword)
	hash := strings.Fields(good)[3]
	token, _, _ := TokenLine("bot", Viewer, time.Time{})
	s := start(t)
	for text, want := range map[string]string{
		"":                                   `has no user and no token`,
		"usr ann admin x":                    `f:1: kind is "usr", expected user or token`,
		"# x\nuser ann root " + hash:         `f:2: role is "root", expected viewer, operator or admin`,
		"user ann admin":                     `f:1: user has 3 fields, expected 4`,
		"user ann admin hunter2":             `f:1: password of ann has 1 parts, expected pbkdf2-sha256$ITERATIONS$SALT$HASH`,
		"user ann admin pbkdf2-sha256$9$a$b": `has "9" iterations, expected 100000 to 10000000`,
		"user ann admin pbkdf2-sha256$600000$YQ$b": `a salt of 1 bytes, expected at least 16`,
		good + good: `f:2: name is "ann" as in line 1`,
		strings.Replace(token, "never", "soon", 1): `expiry is "soon", expected a time like`,
		"token bot viewer never md5$00":            `expected sha256$ and 64 digits`,
		good + "\nuser \x01 admin " + hash:         `f:3: name is "\x01", expected 1 to 100 bytes without spaces`,
	} {
		path := filepath.Join(t.TempDir(), "f")
		harness.OK(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := New(Options{Redis: s.rdb, Users: path})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), hash) {
			t.Errorf("%q: %v, expected %s", text, err, want)
		}
	}
	if _, err := New(Options{Redis: s.rdb, Users: "/nowhere/users"}); err == nil || !strings.Contains(err.Error(), "/nowhere/users") {
		t.Errorf("no file: %v", err)
	}
	for _, c := range []struct{ name, text string }{{"ann", "short"}, {"", goodPassword}, {"a b", goodPassword}, {"#a", goodPassword}, {"ann", strings.Repeat("x", 1001)}} {
		if line, err := UserLine(c.name, Admin, c.text); err == nil {
			t.Errorf("%+v: %s", c, line)
		}
	}
}

// Five attempts a minute for an address and for a name; who is not there is refused like a wrong password.
func TestLogInLimits(t *testing.T) {
	set, _ := withUsers(t)
	s := start(t, set)
	attempt := func(name, text, from string) (int, string) {
		w := s.ask(s.h, http.MethodPost, "/login", logInForm(name, text, ""), "From", from, "Sec-Fetch-Site", "same-origin")
		return w.Code, w.Body.String()
	}
	_, wrong := attempt("ann", "wrong", "127.0.0.1:1")
	_, nobody := attempt("nobody", "wrong", "127.0.0.1:1")
	contains(t, "the page", wrong, "The name or the password is wrong.")
	main := func(page string) string { return page[strings.Index(page, "<main"):strings.Index(page, "</main>")] }
	if main(wrong) != main(nobody) {
		t.Errorf("%s\nand for nobody %s", wrong, nobody)
	}
	for range 3 {
		attempt("ann", "wrong", "127.0.0.1:2")
	}
	if status, _ := attempt("vera", goodPassword, "127.0.0.1:3"); status != http.StatusTooManyRequests {
		t.Errorf("the sixth of an address: %d", status)
	}
	if status, _ := attempt("ann", "wrong", "127.0.0.2:1"); status != http.StatusUnauthorized {
		t.Errorf("the fifth of a name: %d", status)
	}
	if status, _ := attempt("ann", goodPassword, "127.0.0.2:1"); status != http.StatusTooManyRequests {
		t.Errorf("the sixth of a name: %d", status)
	}
	if status, _ := attempt("vera", goodPassword, "127.0.0.2:1"); status != http.StatusSeeOther {
		t.Errorf("another name, another address: %d", status)
	}
}

// Ten actions a second for a user; reading has no limit.
func TestActionLimit(t *testing.T) {
	set, tokens := withUsers(t)
	s := start(t, set)
	s.h.actions = limiter.New(time.Hour, 10)
	codes := map[int]int{}
	for range 12 {
		codes[s.ask(s.h, http.MethodPost, "/queues/q/pause", "", "Authorization", "Bearer "+tokens["operator"]).Code]++
		codes[s.ask(s.h, http.MethodGet, "/queues", "", "Authorization", "Bearer "+tokens["operator"]).Code]++
	}
	if codes[http.StatusSeeOther] != 10 || codes[http.StatusTooManyRequests] != 2 || codes[http.StatusOK] != 12 {
		t.Errorf("%v", codes)
	}
	if w := s.ask(s.h, http.MethodPost, "/queues/q/pause", "", "Authorization", "Bearer "+tokens["admin"]); w.Code != http.StatusSeeOther {
		t.Errorf("somebody else: %d", w.Code)
	}
}
