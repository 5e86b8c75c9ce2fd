package redisconn

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// DefaultURL is used when the environment names no Redis.
const DefaultURL = "redis://localhost:6379/0"

// URLError is a Redis URL that cannot be used. Its text never shows a password.
type URLError struct {
	URL    string // masked
	Reason string
}

func (e *URLError) Error() string {
	return fmt.Sprintf("redis URL %q: %s; expected redis://[user:password@]host[:port][/db], "+
		"rediss:// for TLS, unix://[user:password@]/path[?db=n], "+
		"or redis+cluster://[user:password@]host:port[?addr=host:port&addr=…]", e.URL, e.Reason)
}

// FromURL opens the daemon's own client for a URL. Query parameters set options
// of go-redis by their snake-case names (?dial_timeout=3s); Need wins over
// them. Errors are *URLError; nothing is dialed yet. It is a *redis.Client, or a
// *redis.ClusterClient if the scheme says so.
func FromURL(raw string, need Need) (redis.UniversalClient, error) {
	if IsCluster(raw) {
		o, err := parseCluster(raw)
		if err != nil {
			return nil, err
		}
		return newCluster(cluster(o, need)), nil
	}
	o, err := parse(raw)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(single(o, need)), nil
}

// CheckURL tells, by a *URLError, whether FromURL would accept a URL.
func CheckURL(raw string) error {
	if IsCluster(raw) {
		_, err := parseCluster(raw)
		return err
	}
	_, err := parse(raw)
	return err
}

// address is a host without a scheme, with a port and a database perhaps.
var address = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[0-9]{1,3})?$`)

func parse(raw string) (*redis.Options, error) {
	fault := func(reason string) error { return &URLError{URL: Mask(raw), Reason: reason} }
	if raw == "" {
		return nil, fault("empty")
	}
	if strings.TrimSpace(raw) != raw {
		return nil, fault("spaces around it")
	}
	if address.MatchString(raw) {
		return nil, fault("the scheme is missing: write redis://" + raw)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fault(parseFault(err))
	}
	behind := u.RawQuery + u.Fragment
	if u.Scheme != "unix" { // a file's name may have one
		behind += u.Path
	}
	if strings.Contains(behind, "@") {
		return nil, fault("an @ behind the host; " + encodeHint)
	}
	switch u.Scheme {
	case "redis", "rediss":
		if reason := pathFault(u.Path); reason != "" {
			return nil, fault(reason)
		}
	case "unix":
		if u.Host != "" {
			return nil, fault("the path of a unix socket must begin with / (three slashes in a row)")
		}
		if strings.Trim(u.Path, "/ ") == "" {
			return nil, fault("the path of the unix socket is missing")
		}
	case "":
		return nil, fault("the scheme is missing")
	default:
		return nil, fault("unknown scheme")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return nil, fault("the port is not between 1 and 65535")
		}
	}
	o, err := redis.ParseURL(raw)
	if err != nil {
		// What is left are faults of query parameters: their names and values.
		return nil, fault(strings.TrimPrefix(err.Error(), "redis: "))
	}
	if o.DB < 0 {
		return nil, fault("the database number is negative")
	}
	return o, nil
}

const encodeHint = "special characters in a password must be percent-encoded"

// parseFault puts an error of url.Parse into words without its text, which
// quotes pieces of the URL, a password perhaps.
func parseFault(err error) string {
	const encode = "; " + encodeHint
	if _, ok := errors.AsType[url.EscapeError](err); ok {
		return "a % is not followed by two hex digits" + encode
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "invalid port"):
		return "the port is not a number" + encode
	case strings.Contains(text, "invalid userinfo"):
		return "user or password holds a forbidden character" + encode
	case strings.Contains(text, "missing protocol scheme"), strings.Contains(text, "cannot contain colon"):
		return "the scheme is missing"
	case strings.Contains(text, "control character"):
		return "it holds a control character"
	}
	return "it cannot be parsed" + encode
}

// pathFault checks "/db".
func pathFault(path string) string {
	db := strings.Trim(path, "/")
	if db == "" {
		return ""
	}
	if strings.Contains(db, "/") {
		return "the path has more than one part, expected a database number"
	}
	if n, err := strconv.Atoi(db); err != nil || n < 0 {
		return "the path is not a database number"
	}
	return ""
}

// Mask returns a URL fit for logs and errors: user and password become ***,
// and the query is left out. It works on text that is no URL as well, where it
// rather hides too much.
func Mask(raw string) string {
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		if strings.ContainsAny(raw, ":@") && !address.MatchString(raw) {
			return "***"
		}
		return raw
	}
	// A password may hold any character when it was not encoded, also @ and ?.
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = "***@" + rest[at+1:]
	} else if _, err := url.Parse(raw); err != nil {
		return scheme + "://***"
	}
	if q := strings.IndexAny(rest, "?#"); q >= 0 {
		rest = rest[:q]
	}
	return scheme + "://" + rest
}

// ResolveURL finds the URL in the environment, by Sidekiq's rule: REDIS_PROVIDER
// holds the name of the variable that has it, else it is REDIS_URL, else
// DefaultURL. Empty variables count as unset. A REDIS_PROVIDER with a colon in
// it is a URL in the wrong place, and an error.
func ResolveURL(getenv func(string) string) (string, error) {
	if name := getenv("REDIS_PROVIDER"); name != "" {
		if strings.Contains(name, ":") {
			return "", fmt.Errorf("REDIS_PROVIDER is %q: expected the name of the variable that holds "+
				"the Redis URL (for example REDIS_PROVIDER=REDISTOGO_URL), not a URL", Mask(name))
		}
		if u := getenv(name); u != "" {
			return u, nil
		}
	}
	if u := getenv("REDIS_URL"); u != "" {
		return u, nil
	}
	return DefaultURL, nil
}
