package users

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Account is a line of a users file.
type Account struct {
	Name, Role string
	Mark       string // changes with the line, but for the role

	password password
	expires  time.Time // of a token; zero is never
}

// accounts are those of a users file.
type accounts struct {
	people map[string]*Account // by name
	tokens map[string]*Account // by digest
	costly password            // as dear to check as the dearest one
}

// parse reads a users file. Each line is empty, or one of
//
//	# a comment
//	user NAME ROLE pbkdf2-sha256$ITERATIONS$SALT$HASH
//	token NAME ROLE EXPIRES|never sha256$HASH
//
// It returns what is wrong with each line.
func parse(file, text string, checkRole func(string) error) (*accounts, error) {
	all := &accounts{people: map[string]*Account{}, tokens: map[string]*Account{}}
	names, most := map[string]int{}, 0
	var errs []error
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		a, digest, err := parseAccount(fields, checkRole)
		if err == nil && names[a.Name] > 0 {
			err = fmt.Errorf("name is %q as in line %d, expected another one", a.Name, names[a.Name])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", file, i+1, err))
			continue
		}
		names[a.Name] = i + 1
		if digest != "" {
			all.tokens[digest] = a
			continue
		}
		all.people[a.Name], most = a, max(most, a.password.iterations)
	}
	if len(errs) == 0 && len(names) == 0 {
		errs = append(errs, fmt.Errorf("%s: has no user and no token, expected a line of: troupe web user NAME --role admin", file))
	}
	all.costly = newPassword("", max(most, LeastIterations))
	return all, errors.Join(errs...)
}

func parseAccount(fields []string, checkRole func(string) error) (a *Account, digest string, err error) {
	want := map[string]int{"user": 4, "token": 5}[fields[0]]
	if want == 0 {
		return nil, "", fmt.Errorf("kind is %q, expected user or token", cut(fields[0]))
	}
	if len(fields) != want {
		return nil, "", fmt.Errorf("%s has %d fields, expected %d as of: troupe web %s", fields[0], len(fields), want, fields[0])
	}
	a = &Account{Name: fields[1], Role: fields[2], Mark: Digest(strings.Join(fields[3:], " "))[:32]}
	if err := CheckName(a.Name); err != nil {
		return nil, "", err
	}
	if err := checkRole(a.Role); err != nil {
		return nil, "", err
	}
	if want == 4 {
		if a.password, err = parsePassword(fields[3]); err != nil {
			return nil, "", fmt.Errorf("password of %s %w", a.Name, err)
		}
		return a, "", nil
	}
	if fields[3] != "never" {
		if a.expires, err = time.Parse(time.RFC3339, fields[3]); err != nil {
			return nil, "", fmt.Errorf("expiry is %q, expected a time like 2026-12-31T00:00:00Z, or never", cut(fields[3]))
		}
	}
	scheme, digest, _ := strings.Cut(fields[4], "$")
	if scheme != tokenScheme || len(digest) != 64 || strings.Trim(digest, "0123456789abcdef") != "" {
		return nil, "", fmt.Errorf("hash of the token %s has %d bytes, expected %s$ and 64 digits as of: troupe web token", a.Name, len(fields[4]), tokenScheme)
	}
	return a, digest, nil
}

// File is a users file that is read again when it changes. It is safe for concurrent use.
type File struct {
	Every time.Duration // how often it is looked at

	path      string
	log       zerolog.Logger
	checkRole func(string) error

	mu      sync.Mutex
	looked  time.Time
	looking bool // somebody looks, who alone uses seen and failed; the others go on with what is there
	last    *accounts

	seen   os.FileInfo
	failed string // what was said of the last one
}

// Open reads a file, which is looked at once a second from then on. CheckRole tells what is wrong
// with the name of a role.
func Open(path string, log zerolog.Logger, checkRole func(string) error) (*File, error) {
	f := &File{Every: time.Second, path: path, log: log, checkRole: checkRole}
	var err error
	f.last, err = f.read()
	return f, err
}

// read returns the accounts of the file, or nil if it is as it was seen last. It takes files: not with f.mu held.
func (f *File) read() (*accounts, error) {
	seen, err := os.Stat(f.path)
	if err != nil {
		return nil, err
	}
	if f.seen != nil && os.SameFile(seen, f.seen) && seen.ModTime().Equal(f.seen.ModTime()) && seen.Size() == f.seen.Size() {
		return nil, nil
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return nil, err
	}
	if mode := seen.Mode().Perm(); mode&0o044 != 0 && runtime.GOOS != "windows" {
		f.log.Warn().Str("file", f.path).Stringer("mode", mode).Msg("others can read the users file, and guess short passwords from it: chmod 600")
	}
	f.seen = seen // a faulty one is not read again until it changes
	return parse(f.path, string(text), f.checkRole)
}

// accounts are those of the file as it is now, or of the last one without faults.
func (f *File) accounts() *accounts {
	f.mu.Lock()
	last, look := f.last, !f.looking && time.Since(f.looked) >= f.Every
	f.looking = f.looking || look
	f.mu.Unlock()
	if !look {
		return last
	}
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.looking, f.looked, f.last = false, time.Now(), last
	}()
	switch all, err := f.read(); {
	case err != nil && err.Error() != f.failed:
		f.failed = err.Error()
		f.log.Error().Err(err).Msg("users file is faulty, and the users stay as they were")
	case err == nil && all != nil:
		f.failed, last = "", all
		f.log.Info().Str("file", f.path).Int("users", len(all.people)).Int("tokens", len(all.tokens)).Msg("users file read")
	}
	return last
}

// Person is somebody by name; nil if there is nobody.
func (f *File) Person(name string) *Account { return f.accounts().people[name] }

// Bearer is who has a token; nil if nobody has it, or its time is over.
func (f *File) Bearer(token string) *Account {
	a := f.accounts().tokens[Digest(token)]
	if a == nil || !a.expires.IsZero() && !time.Now().Before(a.expires) {
		return nil
	}
	return a
}

// Check reports whether a password is that of an account. It takes the same time for each account and for
// nil.
func (f *File) Check(a *Account, text string) bool {
	costly := f.accounts().costly
	if a == nil {
		costly.matches(text)
		return false
	}
	ok := a.password.matches(text)
	if rest := costly.iterations - a.password.iterations; rest > 0 {
		password{iterations: rest, salt: a.password.salt}.of(text)
	}
	return ok
}
