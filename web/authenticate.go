package web

import (
	"net/http"
	"strings"

	"github.com/troupehq/troupe/web/internal/proxies"
	"github.com/troupehq/troupe/web/internal/users"
)

// How a request says who asks.
const (
	viaSession = "session"
	viaToken   = "token"
	viaProxy   = "proxy"
)

var errNobody = &fault{Status: http.StatusUnauthorized, Text: "You are not signed in.", Do: "Sign in, or send a token: Authorization: Bearer TOKEN."}

// guarded reports whether requests must be authenticated.
func (h *Handler) guarded() bool {
	return h.options.Authorize != nil || h.users != nil || h.options.UserHeader != ""
}

// authenticate says who asks: the one place that does.
func (r *request) authenticate() (User, error) {
	if r.options.Authorize != nil {
		u, err := r.options.Authorize(r.Request)
		if err != nil {
			return User{}, &fault{Status: http.StatusUnauthorized, Text: "You are not signed in: " + err.Error() + ".", Do: "Sign in where this page belongs to, and come back."}
		}
		return u, nil
	}
	if !r.guarded() {
		// Another name of this machine in the Host may be a page of somebody else's, which has
		// pointed its own name here.
		if r.passedOn || !proxies.Loopback(r.RemoteAddr) || !proxies.Loopback(r.Host) {
			return User{}, &fault{
				Status: http.StatusForbidden, Text: "Nobody can sign in to this dashboard, so it is for the machine that it runs on.",
				Do: "Open it there as http://localhost, or set up who may use it.",
			}
		}
		return User{Name: "local", Role: Admin}, nil
	}
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); r.users != nil && strings.EqualFold(scheme, "Bearer") {
		a := r.users.Bearer(strings.TrimSpace(token))
		if a == nil {
			return User{}, &fault{Status: http.StatusUnauthorized, Text: "This token is not known, or its time is over.", Do: "Make another one: troupe web token."}
		}
		r.via = viaToken
		return userOf(a), nil
	}
	if names := r.Header.Values(r.options.UserHeader); r.options.UserHeader != "" && len(names) > 0 { // a listed proxy's, see proxies.List
		r.via = viaProxy
		return r.byProxy(names)
	}
	return r.bySession()
}

// byProxy is who a listed proxy says it is. The role is that of its header; without one that of the
// users file, and else the least.
func (r *request) byProxy(names []string) (User, error) {
	u := User{Name: strings.TrimSpace(names[0]), Role: Viewer}
	if len(names) > 1 || users.CheckName(u.Name) != nil {
		return User{}, &fault{Status: http.StatusUnauthorized, Text: "The proxy does not say who you are.", Do: "It has to set " + r.options.UserHeader + " once, to one name."}
	}
	if header := r.options.RoleHeader; header != "" {
		roles := r.Header.Values(header)
		role, err := ParseRole(strings.TrimSpace(strings.Join(roles, ",")))
		if err != nil {
			return User{}, &fault{Status: http.StatusForbidden, Text: "The proxy gives you no role here: " + err.Error() + ".", Do: "It has to set " + header + "."}
		}
		u.Role = role
	} else if r.users != nil {
		if a := r.users.Person(u.Name); a != nil {
			u = userOf(a)
		}
	}
	return u, nil
}

// userOf is the user of a line of a users file, whose role was checked when that was read.
func userOf(a *users.Account) User {
	role, _ := ParseRole(a.Role)
	return User{a.Name, role}
}
