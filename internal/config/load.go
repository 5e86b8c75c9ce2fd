package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/redisconn"
)

// defaultFiles are read, the first that exists, if no file is named: troupe's
// own, then the one that a Sidekiq application has.
var defaultFiles = [...]string{"troupe.yml", "config/sidekiq.yml", "config/sidekiq.yml.erb"}

const defaultEnvironment = "development"

// Flags is the first layer: what the command line said. Zero values were not said.
type Flags struct {
	File        string // -C
	Environment string // -e
	Tag         string // -g
	Concurrency int    // -c, of the capsule default
	Timeout     time.Duration
	Queues      fetch.Queues // -q, of the capsule default
	Verbose     bool         // -v
	Redis       string       // --redis
	Ops         string       // --ops
}

// Settings is the result of all layers. Zero values mean the daemon's defaults.
type Settings struct {
	File
	Path     string // of the file that was read; "" for none
	RedisURL string
	Trees    []Tree // what runs on each shard; none for one Redis
	Level    zerolog.Level
	Keys     troupe.Encryption // of encryption
}

// Load reads the file that flags names, or else the first of troupe.yml,
// config/sidekiq.yml and config/sidekiq.yml.erb in the working directory, and puts the layers together. getenv is os.Getenv outside
// of tests; these variables count:
//
//	APP_ENV, RAILS_ENV, RACK_ENV  the environment, the first that is set
//	RAILS_MAX_THREADS             concurrency of the capsule default
//	REDIS_PROVIDER, REDIS_URL     see the flag --redis
//	DEBUG_INVOCATION=1            as -v
//
// The environment alone is Sidekiq's order: flag, variables, file. The error is
// a Faults with all there is; the Settings are then good for messages only.
func Load(flags Flags, getenv func(string) string) (*Settings, error) {
	l := &loader{flags: flags, getenv: getenv, s: &Settings{}}
	l.readFile()
	l.schedule()
	l.environment()
	l.handlers()
	l.limits()
	l.encryption()
	l.rest()
	if len(l.s.Shards) > 0 {
		l.shards()
	} else {
		l.capsules()
		l.redis()
		l.waiters(l.s, "capsules.")
		l.wires(l.s, "capsules.")
		l.unknown(l.s, "capsules.")
		l.keepLimits(l.s)
	}
	l.outboxes()
	l.variables()
	return l.s, l.faults.err()
}

// DeadSet returns how many jobs the dead set keeps, and for how long, in the daemon of s.
func (s *Settings) DeadSet() (most int, age time.Duration) {
	return cmp.Or(s.DeadMax, limits.DeadMax), cmp.Or(s.DeadTimeout, limits.DeadTimeout)
}

type loader struct {
	flags  Flags
	getenv func(string) string
	env    string // by flag and variables
	s      *Settings
	faults Faults
}

func (l *loader) readFile() {
	l.env = cmp.Or(l.flags.Environment, l.getenv("APP_ENV"), l.getenv("RAILS_ENV"), l.getenv("RACK_ENV"))
	names := defaultFiles[:]
	if l.flags.File != "" {
		names = []string{l.flags.File}
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) && l.flags.File == "" {
			continue
		}
		l.s.Path = name
		if err != nil {
			if e, ok := errors.AsType[*fs.PathError](err); ok {
				err = e.Err
			}
			l.s.unclear = true
			l.faults = append(l.faults, Fault{
				Field: "configuration file (-C)", Value: strconv.Quote(name),
				Want: fmt.Sprintf("a file that can be read (%v)", err),
			})
			return
		}
		file, err := Parse(name, data, l.env)
		if f, ok := errors.AsType[Faults](err); ok {
			l.faults = append(l.faults, f...)
		}
		l.s.File = *file
		return
	}
}

func (l *loader) environment() {
	l.s.Environment = cmp.Or(l.env, l.s.Environment, defaultEnvironment)
}

// capsules makes the list complete: the capsule default is always there, as in
// Sidekiq, described by the flags, the file, RAILS_MAX_THREADS.
func (l *loader) capsules() {
	if l.relayOnly() {
		l.s.Capsules = []capsule{{Name: defaultCapsule, Concurrency: 1, Queues: fetch.Strict{relayQueue}}}
		return
	}
	i := slices.IndexFunc(l.s.Capsules, func(c capsule) bool { return c.Name == defaultCapsule })
	if i < 0 {
		l.s.Capsules = slices.Insert(l.s.Capsules, 0, capsule{Name: defaultCapsule})
		i = 0
	}
	c := &l.s.Capsules[i]
	c.Concurrency = cmp.Or(l.flags.Concurrency, c.Concurrency, l.s.Concurrency)
	for _, q := range []fetch.Queues{l.flags.Queues, c.Queues, l.s.Queues, fetch.Strict{"default"}} {
		if q != nil {
			c.Queues = q
			break
		}
	}
	if threads := l.getenv("RAILS_MAX_THREADS"); threads != "" && c.Concurrency == 0 {
		n, err := strconv.Atoi(threads)
		if err != nil || n < 1 || n > limits.MaxConcurrency {
			l.faults = append(l.faults, Fault{
				Field: "RAILS_MAX_THREADS", Value: strconv.Quote(clip(threads)),
				Want: fmt.Sprintf("a whole number from 1 to %d", limits.MaxConcurrency),
			})
		} else {
			c.Concurrency = n
		}
	}
}

// waiters refuses a number of waiters where there can be none.
func (l *loader) waiters(s *Settings, at string) {
	for _, c := range s.Capsules {
		f := Fault{File: l.s.Path, Line: c.waitersLine, Field: at + c.Name + ".waiters", Value: strconv.Itoa(c.Waiters)}
		switch {
		case c.Waiters == 0:
			continue
		case s.fetcher(c) == "basic":
			f.Want = "0 with fetch: basic, whose BRPOP waits like one thread of Sidekiq"
		default:
			continue
		}
		l.faults = append(l.faults, f)
	}
}

func (l *loader) redis() {
	url, err := RedisURL(cmp.Or(l.flags.Redis, l.s.Redis), l.getenv)
	if f, ok := errors.AsType[Faults](err); ok {
		l.faults = append(l.faults, f...)
	}
	l.s.RedisURL = url
}

// RedisURL returns given, the value of the flag --redis, if it is not "", else
// the URL that the environment names by Sidekiq's rules: the variable whose name
// is in REDIS_PROVIDER, then REDIS_URL, then redis://localhost:6379/0. The error
// is a Faults.
func RedisURL(given string, getenv func(string) string) (string, error) {
	url, field := given, "--redis"
	if url == "" {
		var err error
		if url, err = redisconn.ResolveURL(getenv); err != nil {
			return "", Faults{{
				Field: "REDIS_PROVIDER", Value: strconv.Quote(redisconn.Mask(getenv("REDIS_PROVIDER"))),
				Want: "the name of the variable that holds the URL, not a URL",
			}}
		}
		field = "REDIS_URL"
		if name := getenv("REDIS_PROVIDER"); name != "" && getenv(name) == url {
			field = name
		}
	}
	if f, ok := redisFault(url, field); !ok {
		return "", Faults{f}
	}
	return url, nil
}

// handlers refuses a daemon that could run nothing, since it would take every
// job only to fail it, and programs and values that are not there.
func (l *loader) handlers() {
	p := &parse{name: l.s.Path, out: &File{}}
	for _, h := range l.s.Handlers {
		field := "handlers." + h.Class
		switch {
		case len(h.Exec) > 0:
			if _, err := exec.LookPath(h.Exec[0]); err != nil {
				if e, ok := errors.AsType[*exec.Error](err); ok {
					err = e.Err
				}
				p.fault(h.line, field+".exec", strconv.Quote(clip(h.Exec[0])), fmt.Sprintf("a program that can be run (%v)", err))
			}
		case h.HTTP != nil:
			l.resolve(p, h.HTTP, field+".http")
		}
	}
	l.faults = append(l.faults, p.faults...)
	if len(l.s.Handlers) > 0 || l.s.unclear || l.relayOnly() {
		return
	}
	const want = "at least one class, like handlers: {NoOp: {builtin: noop}}"
	f := Fault{File: l.s.Path, Field: "handlers", Value: "missing", Want: want}
	if l.s.Path == "" {
		f = Fault{
			Field: "configuration file (-C)", Value: "missing",
			Want: fmt.Sprintf("%s, %s or one given with -C FILE, with %s", defaultFiles[0], defaultFiles[1], want),
		}
	}
	l.faults = append(l.faults, f)
}

// resolve reads what the file leaves to variables and other files.
func (l *loader) resolve(p *parse, h *httpEntry, field string) {
	if p.resolve(&h.URL, field+".url", l.getenv) {
		p.checkURL(h.URL, field+".url")
	}
	for i := range h.Headers {
		at := field + ".headers." + h.Headers[i].Name
		if p.resolve(&h.Headers[i].Value, at, l.getenv) {
			p.checkHeader(h.Headers[i], at)
		}
	}
	p.resolve(&h.Secret, field+".secret", l.getenv)
}

func (l *loader) rest() {
	s := l.s
	s.Timeout = cmp.Or(l.flags.Timeout, s.Timeout)
	s.Verbose = l.flags.Verbose || s.Verbose || l.getenv("DEBUG_INVOCATION") == "1"
	s.Level = zerolog.InfoLevel
	if s.LogLevel != "" {
		s.Level, _ = zerolog.ParseLevel(s.LogLevel) // one of four words
	}
	if s.Verbose {
		s.Level = zerolog.DebugLevel
	}
	if s.Ops = cmp.Or(l.flags.Ops, s.Ops); l.flags.Ops != "" && !isAddress(s.Ops) {
		l.faults = append(l.faults, Fault{Field: "--ops", Value: strconv.Quote(clip(s.Ops)), Want: wantAddress})
	}
	s.Tag = cmp.Or(l.flags.Tag, s.Tag)
	s.PeriodicTag = s.Tag // one that was said: several programs may run in folders of the same name
	if s.Tag == "" {      // Sidekiq 8's default: the name of the working directory
		if dir, err := os.Getwd(); err == nil && filepath.Dir(dir) != dir {
			s.Tag = filepath.Base(dir)
		}
	}
}
