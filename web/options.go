package web

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/internal/tree"
	"github.com/troupehq/troupe/internal/words"
	"github.com/troupehq/troupe/web/internal/proxies"
	"github.com/troupehq/troupe/web/internal/users"
)

// Options configure a Handler. All but Redis may be left out.
type Options struct {
	// Redis is the one whose processes and jobs are shown. The handler does not close it.
	Redis redis.UniversalClient

	// BasePath is where the pages are, "/jobs", if requests come with it, or if a proxy has
	// removed it. Behind http.StripPrefix it is not needed.
	BasePath string

	// Authorize says who asks. An error is answered with 401 and its text. What only a proxy may
	// say is in the request if TrustProxies has the proxy. Without it, Users and UserHeader
	// everybody on this machine is an admin, and requests from elsewhere, or for another host
	// than this one, are refused.
	Authorize func(*http.Request) (User, error)

	// Users is the path of a file of those who may sign in, and of tokens of programs; see
	// UserLine and TokenLine for its lines. It is read again when it changes. It excludes Authorize.
	Users string

	// TrustProxies are the addresses and networks of proxies, "10.0.0.0/8". Only they may set
	// X-Forwarded-For, -Proto, -Host and -Prefix, UserHeader and RoleHeader.
	TrustProxies []string

	// UserHeader is a header by which a trusted proxy says who has signed in there, RoleHeader
	// one by which it says the role: viewer, operator or admin. Without RoleHeader the role is
	// that of the users file, and viewer for who is not in it.
	UserHeader, RoleHeader string

	// Origin is the address that browsers see, "https://jobs.example", if a proxy rewrites Host.
	Origin string

	// MaskKeys are more parts of names of keys whose values are masked, and MaskArgs, by class, the
	// positions of arguments that are, the first one is 1. Both are for Args "mask".
	MaskKeys []string
	MaskArgs map[string][]int

	// DeadMax and DeadTimeout are what the daemons are configured with: a job that is killed on
	// the dashboard has the dead set bounded as one that dies in a daemon has. 0 leaves
	// all that is dead as it is.
	DeadMax     int
	DeadTimeout time.Duration

	// ReadOnly leaves out all that changes something but log-in and log-out: there are no such addresses.
	ReadOnly bool

	// Args is how arguments of jobs are shown: "mask" (or "") masks what looks secret, "hide"
	// shows only how many there are, "show" shows all. An admin may reveal those of a page.
	Args string

	// Logger gets a line for each action, and for what goes wrong.
	Logger zerolog.Logger

	// Trees returns the live trees of daemons in this process, by identity.
	Trees func() map[string]tree.Tree
}

// User is who asks.
type User struct {
	Name string // for the audit
	Role Role
}

// Role is what a user may do. Each may all that those before it may; the zero value may nothing.
type Role uint8

// The roles.
const (
	Viewer   Role = iota + 1 // sees everything, arguments masked
	Operator                 // retries, kills and deletes jobs, pauses queues, quiets processes
	Admin                    // stops processes, clears queues, acts on many jobs, reveals arguments
)

// String returns the name of the role in lower case.
func (r Role) String() string {
	return [...]string{"nobody", "viewer", "operator", "admin"}[min(r, Admin)]
}

// ParseRole returns the role of a name: viewer, operator or admin.
func ParseRole(name string) (Role, error) {
	for r := Viewer; r <= Admin; r++ {
		if r.String() == name {
			return r, nil
		}
	}
	return 0, fmt.Errorf("role is %q, expected viewer, operator or admin", words.Short(name, users.MostName))
}

func checkRole(name string) error { _, err := ParseRole(name); return err }

// UserLine returns the line of a users file for somebody who signs in with a password of at least
// ten bytes. The line has a hash of it, from which it cannot be read, but short ones can be guessed.
func UserLine(name string, role Role, text string) (string, error) {
	return users.UserLine(name, role.String(), text, users.Iterations)
}

// TokenLine returns a new token for a program, which sends it as "Authorization: Bearer TOKEN",
// and the line of a users file for it, which has a hash of it. A zero time is no end.
func TokenLine(name string, role Role, expires time.Time) (line, token string, err error) {
	return users.TokenLine(name, role.String(), expires)
}

// isBase reports whether a path can be put before the addresses of pages.
func isBase(path string) bool {
	return strings.HasPrefix(path, "/") && !strings.ContainsAny(path, "?#\\%\"<> ") && !strings.Contains(path, "//")
}

// check returns what is wrong with the options, all at once, and fills in what was left out.
func (o *Options) check() error {
	var errs []error
	if o.Redis == nil {
		errs = append(errs, errors.New("web: Options.Redis is nil, expected a client"))
	}
	if o.BasePath = strings.TrimRight(o.BasePath, "/"); o.BasePath != "" && !isBase(o.BasePath) {
		errs = append(errs, fmt.Errorf(`web: Options.BasePath is %q, expected a path like "/jobs"`, o.BasePath))
	}
	if o.Users != "" && o.Authorize != nil {
		errs = append(errs, fmt.Errorf("web: Options.Users is %q beside Options.Authorize, expected one of the two", o.Users))
	}
	if _, bad := proxies.Parse(o.TrustProxies); bad != "" {
		errs = append(errs, fmt.Errorf("web: Options.TrustProxies has %q, expected an address or a network like 10.0.0.0/8", bad))
	}
	if o.UserHeader != "" && len(o.TrustProxies) == 0 {
		errs = append(errs, fmt.Errorf("web: Options.UserHeader is %q without TrustProxies, expected the addresses of those who may set it", o.UserHeader))
	}
	if o.RoleHeader != "" && o.UserHeader == "" {
		errs = append(errs, fmt.Errorf("web: Options.RoleHeader is %q without UserHeader, expected both", o.RoleHeader))
	}
	if o.Origin != "" && http.NewCrossOriginProtection().AddTrustedOrigin(o.Origin) != nil {
		errs = append(errs, fmt.Errorf("web: Options.Origin is %q, expected one like https://jobs.example", o.Origin))
	}
	for class, positions := range o.MaskArgs {
		if len(positions) == 0 || slices.Min(positions) < 1 {
			errs = append(errs, fmt.Errorf("web: Options.MaskArgs[%q] is %v, expected positions of at least 1", class, positions))
		}
	}
	switch o.Args {
	case "":
		o.Args = mask.Mask
	case mask.Mask, mask.Hide, mask.Show:
	default:
		errs = append(errs, fmt.Errorf(`web: Options.Args is %q, expected "mask", "hide" or "show"`, o.Args))
	}
	return errors.Join(errs...)
}
