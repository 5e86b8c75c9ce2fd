package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupehq/troupe/bench/internal/proc"
)

// Postgres is a running PostgreSQL on a unix socket in its own directory. As
// Redis runs without persistence here, so does this one: no fsync.
type Postgres struct {
	bin, dir string
	who      *syscall.Credential
	p        *proc.Process
	n        int // databases made so far
}

// PostgresMissing tells why there can be no PostgreSQL.
func PostgresMissing() error {
	_, err := postgresBin()
	return err
}

// postgresBin is the directory of the newest server's programs; Debian keeps
// them off the PATH.
func postgresBin() (string, error) {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(dirs) > 0 {
		newest := slices.MaxFunc(dirs, func(a, b string) int { return version(a) - version(b) })
		return filepath.Dir(newest), nil
	}
	path, err := exec.LookPath("postgres")
	return filepath.Dir(path), err
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// unprivileged is who the server runs as: it refuses to be root.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.Atoi(u.Uid)
			gid, _ := strconv.Atoi(u.Gid)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody")
}

// StartPostgres makes a cluster in a new temporary directory and starts it.
func StartPostgres(ctx context.Context) (pg *Postgres, err error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	who, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "troupe-bench-pg-")
	if err != nil {
		return nil, err
	}
	pg = &Postgres{bin: bin, dir: dir, who: who}
	defer func() {
		if err != nil {
			pg.Close()
		}
	}()
	if who != nil {
		if err := os.Chown(dir, int(who.Uid), int(who.Gid)); err != nil {
			return pg, err
		}
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "bench", "-A", "trust", "-N", "-E", "UTF8", "--locale=C")
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	initdb.Dir = dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return pg, fmt.Errorf("initdb: %w: %s", err, out)
	}
	return pg, pg.start(ctx)
}

func (pg *Postgres) start(ctx context.Context) (err error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(pg.bin, "postgres"), "-D", filepath.Join(pg.dir, "data"), "-k", pg.dir,
		"-c", "listen_addresses=", "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off",
		"-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB", "-c", "max_connections=200")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: pg.who}
	cmd.Dir = pg.dir
	if pg.p, err = proc.Start(cmd, pg.dir, "postgres"); err != nil {
		return err
	}
	return answers(ctx, pg.p, func(ctx context.Context) error { return pg.do(ctx, "SELECT 1") })
}

// Restart ends the server as a crash does and starts it again.
func (pg *Postgres) Restart(ctx context.Context) error {
	pg.p.Stop(syscall.SIGQUIT, 10*time.Second)
	return pg.start(ctx)
}

// answers waits until a server does what ask asks for.
func answers(ctx context.Context, p *proc.Process, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if err := p.Ended(); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond) // no signal tells that a server listens
	}
}

func (pg *Postgres) do(ctx context.Context, sql string) error {
	c, err := pgx.Connect(ctx, pg.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	_, err = c.Exec(ctx, sql)
	return err
}

// URL is the connection string of a database.
func (pg *Postgres) URL(database string) string {
	return fmt.Sprintf("host=%s user=bench dbname=%s", pg.dir, database)
}

// Database makes a new database, a copy of image unless that is "".
func (pg *Postgres) Database(ctx context.Context, image string) (string, error) {
	pg.n++
	name := fmt.Sprintf("bench%d", pg.n)
	sql := "CREATE DATABASE " + name
	if image != "" {
		sql += " TEMPLATE " + image
	}
	return name, pg.do(ctx, sql)
}

// Drop removes a database, whoever uses it.
func (pg *Postgres) Drop(ctx context.Context, name string) error {
	return pg.do(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
}

// CPU is the processor time of the server and its present backends.
func (pg *Postgres) CPU() (total time.Duration) {
	for _, pid := range proc.Family(pg.p.PID()) {
		total += proc.CPU(pid)
	}
	return total
}

// Close ends the server and removes its directory.
func (pg *Postgres) Close() {
	if pg.p != nil {
		pg.p.Stop(syscall.SIGQUIT, 10*time.Second)
	}
	_ = os.RemoveAll(pg.dir)
}
