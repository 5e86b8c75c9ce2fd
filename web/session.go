package web

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/web/internal/proxies"
	"github.com/troupehq/troupe/web/internal/users"
)

const (
	sessionTime  = 12 * time.Hour
	secureCookie = "__Host-troupe" // browsers keep it only if it came over TLS, for this host alone
	localCookie  = "troupe"        // over http on this machine, where some keep no other
	mostChecks   = 2               // passwords that are checked at one time: each takes a processor
)

// session is the record of a session in Redis. Its key is the digest of the value of the cookie.
type session struct {
	User  string `json:"user"`
	Mark  string `json:"mark"`  // of the account: another password ends it
	Until int64  `json:"until"` // seconds since the epoch
}

// local reports whether the browser is on this machine, and speaks http to it.
func (r *request) local() bool {
	return !r.secure && proxies.Loopback(r.RemoteAddr) && proxies.Loopback(r.Host)
}

func (r *request) sessionCookie(value string, age time.Duration) *http.Cookie {
	c := &http.Cookie{Name: secureCookie, Value: value, Path: "/", MaxAge: int(age.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: true}
	if r.local() {
		c.Name, c.Secure = localCookie, false
	}
	return c
}

// session is the key of the session of a request in Redis; "" if it has none.
func (r *request) session() string {
	c, err := r.Cookie(r.sessionCookie("", 0).Name)
	if err != nil || c.Value == "" || len(c.Value) > users.MostName {
		return ""
	}
	return keys.WebSession(users.Digest(c.Value))
}

// bySession returns the user of the session that the cookie names.
func (r *request) bySession() (User, error) {
	key := r.session()
	if key == "" || r.users == nil {
		return User{}, errNobody
	}
	raw, err := r.options.Redis.Get(r.Context(), key).Bytes()
	if errors.Is(err, redis.Nil) {
		return User{}, errNobody
	}
	if err != nil {
		return User{}, err
	}
	var s session
	err = json.Unmarshal(raw, &s)
	a := r.users.Person(s.User)
	if err != nil || a == nil || a.Mark != s.Mark || time.Now().Unix() >= s.Until {
		return User{}, errNobody
	}
	r.via = viaSession
	return userOf(a), nil
}

// begin signs somebody in. The session is always a new one, since somebody else may know the old one.
func (r *request) begin(a *users.Account) error {
	if old := r.session(); old != "" {
		if err := r.options.Redis.Del(r.Context(), old).Err(); err != nil {
			return err
		}
	}
	id := rand.Text()
	text, _ := json.Marshal(session{User: a.Name, Mark: a.Mark, Until: time.Now().Add(sessionTime).Unix()}) // plain data
	if err := r.options.Redis.Set(r.Context(), keys.WebSession(users.Digest(id)), text, sessionTime).Err(); err != nil {
		return err
	}
	http.SetCookie(r.w, r.sessionCookie(id, sessionTime))
	return nil
}

// logInPage is the data of the form by which people sign in.
type logInPage struct {
	Next  string `json:"next"` // where they go then
	Text  string `json:"text,omitempty"`
	Again string `json:"-"` // where they go who are signed in already, and whose browser did not say so
}

func (r *request) askLogIn() (*page, error) { return r.logInPage(r.query("next"), ""), nil }

func (r *request) logInPage(next, text string) *page {
	p := logInPage{Next: r.here(next), Text: text}
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Method == http.MethodGet {
		p.Again = p.Next // with a link of another site browsers send no cookie that is Strict
	}
	return &page{Template: "login", Title: "Sign in", Data: p}
}

// here is an address if it is one of the dashboard, else its first page.
func (r *request) here(address string) string {
	if !strings.HasPrefix(address, r.base+"/") || !isLocal(address) {
		return r.url()
	}
	return address
}

// isLocal reports whether browsers stay on this host with an address.
func isLocal(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "" && u.Host == "" && strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//") &&
		!strings.ContainsAny(address, "\\\r\n\t")
}

func (r *request) logIn() (*page, error) {
	origin, err := url.Parse(r.Header.Get("Origin"))
	if outside := err == nil && origin.Host != "" && !proxies.Loopback(origin.Host); !r.secure && (!r.local() || outside) {
		return nil, &fault{
			Status: http.StatusForbidden, Text: "This page came over http, where others can read passwords, so nobody can sign in.",
			Do: "Open it as https. If a proxy does TLS, it has to set X-Forwarded-Proto, and to be listed: --trust-proxy.",
		}
	}
	name, text := r.form("name"), r.form("password")
	r.user = User{Name: "(unknown)"} // what was typed may be a password
	a := r.users.Person(name)
	if a != nil {
		r.user.Name = name
	}
	if !r.logIns.Pass("address "+proxies.Network(r.RemoteAddr)) || !r.logIns.Pass("name "+name) {
		r.w.Header().Set("Retry-After", "60")
		return nil, &fault{Status: http.StatusTooManyRequests, Text: "There were too many attempts to sign in.", Do: "Wait a minute, then try again."}
	}
	select {
	case r.checks <- struct{}{}:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	ok := r.users.Check(a, text)
	<-r.checks
	if !ok {
		return nil, &fault{Status: http.StatusUnauthorized, Text: "The name or the password is wrong."}
	}
	if err := r.begin(a); err != nil {
		return nil, err
	}
	r.user = userOf(a)
	return r.done(r.here(r.form("next")), nil, "%s is signed in.", name)
}

func (r *request) logOut() (*page, error) {
	if key := r.session(); key != "" {
		if err := r.options.Redis.Del(r.Context(), key).Err(); err != nil {
			return nil, err
		}
	}
	http.SetCookie(r.w, r.sessionCookie("", -time.Second))
	return r.done(r.url("login"), nil, "You are signed out.")
}
