package config

import (
	"cmp"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/outbox"
)

// outboxEntry is one entry of outbox:, a database whose rows go to Redis.
type outboxEntry struct {
	Name              string
	DSN               secretText
	Dialect           outbox.Dialect
	Poll, Lease, Keep time.Duration
	Ready             bool

	line int
}

// dialect is a kind of database.
type dialect struct {
	name   outbox.Dialect
	driver string // of database/sql
	dsn    *regexp.Regexp
	want   string
	// write is a DSN as the driver wants it; nil: as it is
	write func(dsn string) string
}

// dialects say what the databases of outbox: are called, which driver of database/sql the program is to have for each, and
// what a DSN of it looks like.
var dialects = []dialect{
	{outbox.Postgres, "pgx", regexp.MustCompile(`^postgres(ql)?://|^\s*\w+\s*=`), "postgres://USER:PASSWORD@HOST/DATABASE, or words like host=… dbname=…", nil},
	{outbox.MySQL, "mysql", regexp.MustCompile(`^(mysql2?|mariadb|trilogy)://|^[^/]*@\w+(\(.*\))?/`), "mysql://USER:PASSWORD@HOST/DATABASE, or USER:PASSWORD@tcp(HOST:3306)/DATABASE", mysqlDSN},
	{outbox.SQLite, "sqlite", regexp.MustCompile(`^(file:|sqlite3?:|[^:]+$)`), "the path of a file, or file:PATH?…", sqliteDSN},
}

// mysqlDSN makes a URL what the driver reads.
func mysqlDSN(dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		return dsn
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "3306")
	}
	password, _ := u.User.Password()
	return fmt.Sprintf("%s:%s@tcp(%s)%s", u.User.Username(), password, host, u.Path)
}

// sqliteDSN has transactions wait for one another, unless the DSN says how.
func sqliteDSN(dsn string) string {
	for _, scheme := range []string{"sqlite3:", "sqlite:", "file:"} {
		if path, ok := strings.CutPrefix(dsn, scheme); ok {
			dsn = path
			if rest, ok := strings.CutPrefix(dsn, "//"); ok && scheme != "file:" {
				dsn = rest
			}
			break
		}
	}
	if !strings.Contains(dsn, "?") {
		dsn += "?_txlock=immediate&_pragma=busy_timeout(20000)"
	}
	return "file:" + dsn
}

var outboxName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

var outboxSettings = readers[outboxEntry]{
	"dsn": func(p *parse, o *outboxEntry, n *node, field string) { o.DSN = p.text(n, field) },
	"dialect": func(p *parse, o *outboxEntry, n *node, field string) {
		var names []string
		for _, d := range dialects {
			names = append(names, string(d.name))
		}
		o.Dialect = outbox.Dialect(p.word(n, field, names...))
	},
	"poll":  func(p *parse, o *outboxEntry, n *node, field string) { o.Poll = p.duration(n, field, time.Millisecond) },
	"lease": func(p *parse, o *outboxEntry, n *node, field string) { o.Lease = p.duration(n, field, time.Second) },
	"keep":  func(p *parse, o *outboxEntry, n *node, field string) { o.Keep = p.duration(n, field, 0) },
	"ready": func(p *parse, o *outboxEntry, n *node, field string) { o.Ready = p.bool(n, field) },
}

// outboxes reads a map by name, or a list of maps with a name.
func (p *parse) outboxes(n *node, field string) (out []outboxEntry) {
	const form = "a map with dsn and dialect"
	p.named(n, field, "database", form+", and a name in a list", nil, func(name string, n *node, field string) {
		o := outboxEntry{Name: name, line: n.line}
		faults := len(p.faults)
		if n.kind == null {
			p.bad(n, field, form)
			return
		}
		outboxSettings.read(p, &o, n, field, form, func(e entry, at string, known []string) {
			if e.key != "name" {
				p.alien(e, at, known)
			}
		})
		if !outboxName.MatchString(name) && capsuleName.MatchString(name) {
			p.fault(n.line, field, fmt.Sprintf("named %q", clip(name)), "a name of 1 to 100 letters, digits and _ . -")
		}
		if len(p.faults) == faults && o.DSN == (secretText{line: o.DSN.line}) {
			p.fault(n.line, field+".dsn", "missing", "where the database is: {env: VARIABLE} or {file: PATH}")
		}
		if len(p.faults) == faults && o.Dialect == "" {
			p.fault(n.line, field+".dialect", "missing", "the language of the database, such as "+string(outbox.Postgres))
		}
		out = append(out, o)
	})
	return out
}

// outboxes reads the DSNs where the file says that they are, and refuses outboxes where none can be.
func (l *loader) outboxes() {
	p := &parse{name: l.s.Path, out: &File{}}
	for i := range l.s.Outboxes {
		o := &l.s.Outboxes[i]
		field := "outbox." + o.Name
		at := slices.IndexFunc(dialects, func(d dialect) bool { return d.name == o.Dialect })
		if at < 0 {
			continue // told
		}
		switch d := dialects[at]; {
		case o.DSN.Value == "" && !p.resolve(&o.DSN, field+".dsn", l.getenv):
		case !d.dsn.MatchString(o.DSN.Value):
			p.fault(o.DSN.line, field+".dsn", o.DSN.String(), d.want)
		case !slices.Contains(sql.Drivers(), d.driver):
			p.fault(o.line, field+".dialect", strconv.Quote(string(o.Dialect)), "a dialect whose driver ("+d.driver+") this program has")
		}
		switch {
		case len(l.s.Shards) > 0:
			p.fault(o.line, field, "given beside shards", "no shards: an outbox goes to one Redis")
		case redisconn.IsCluster(l.s.RedisURL):
			p.fault(o.line, field, "given for a Redis Cluster", "one Redis: a batch goes to it in one step")
		}
	}
	l.faults = append(l.faults, p.faults...)
}

// relayQueue is the queue of a daemon that only relays: it has no jobs.
const relayQueue = "troupe-relay"

// relayOnly tells whether the daemon takes no jobs: the file has an outbox, and neither handlers nor queues.
func (l *loader) relayOnly() bool {
	return len(l.s.Outboxes) > 0 && len(l.s.Handlers) == 0 && len(l.s.Capsules) == 0 && l.s.Queues == nil && l.flags.Queues == nil
}

// OpenOutbox opens the database of the outbox of that name, or of the only one for "".
func (s *Settings) OpenOutbox(name string) (*sql.DB, outbox.Dialect, error) {
	var names []string
	for i := range s.Outboxes {
		o := &s.Outboxes[i]
		if o.Name == name || name == "" && len(s.Outboxes) == 1 {
			db, err := o.open()
			return db, o.Dialect, err
		}
		names = append(names, o.Name)
	}
	file := cmp.Or(s.Path, "no configuration file")
	if len(names) == 0 {
		return nil, "", fmt.Errorf("%s: outbox is missing, expected a map of databases by name", file)
	}
	return nil, "", fmt.Errorf("outbox is %q, expected one of %s has: %s", name, file, strings.Join(names, ", "))
}

// open opens the database; it does not ask it.
func (o *outboxEntry) open() (*sql.DB, error) {
	for _, d := range dialects {
		if d.name == o.Dialect {
			dsn := o.DSN.Value
			if d.write != nil {
				dsn = d.write(dsn)
			}
			db, err := sql.Open(d.driver, dsn)
			if err == nil {
				db.SetMaxOpenConns(4)
				db.SetConnMaxLifetime(time.Hour)
			}
			return db, err
		}
	}
	return nil, fmt.Errorf("outbox.%s.dialect is %q, expected %q", o.Name, string(o.Dialect), string(outbox.Postgres))
}

// relays are those of the file, which push into rdb.
func (s *Settings) relays(rdb redis.UniversalClient) (all []actors.Outbox, err error) {
	c := client.New(rdb, client.WithTimestamps(s.Timestamps), client.WithEncryption(s.Keys))
	for i := range s.Outboxes {
		o := &s.Outboxes[i]
		db, err := o.open()
		if err != nil {
			return nil, fmt.Errorf("outbox.%s.dsn: %w", o.Name, err)
		}
		relay, err := outbox.NewRelay(db, c, outbox.RelayConfig{Dialect: o.Dialect, Poll: o.Poll, Lease: o.Lease, Keep: o.Keep})
		if err != nil {
			return nil, fmt.Errorf("outbox.%s: %w", o.Name, err)
		}
		all = append(all, actors.Outbox{Name: o.Name, Relay: relay, Ready: o.Ready})
	}
	return all, nil
}

// text is what a summary says of an outbox. It has the host and the database, never the password.
func (o *outboxEntry) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s", o.Dialect, o.DSN.String())
	if u, err := url.Parse(o.DSN.Value); err == nil && u.Host != "" {
		fmt.Fprintf(&b, " (%s%s)", u.Host, u.Path)
	}
	for _, d := range []struct {
		what string
		of   time.Duration
	}{{"poll", o.Poll}, {"lease", o.Lease}, {"keep", o.Keep}} {
		if d.of > 0 {
			fmt.Fprintf(&b, ", %s %s", d.what, d.of)
		}
	}
	if o.Ready {
		b.WriteString(", counts for readyz")
	}
	return b.String()
}
