package server

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/troupehq/troupe/bench/internal/proc"
)

// MariaDB is a running MariaDB on a unix socket in its own directory. It writes
// to the system, and not to the disk: what is committed outlasts a Restart.
type MariaDB struct {
	dir string
	who *syscall.Credential
	p   *proc.Process
	n   int // databases made so far
}

// MariaDBMissing tells why there can be no MariaDB.
func MariaDBMissing() error {
	_, err := mariadbBin("mariadbd")
	if err == nil {
		_, err = mariadbBin("mariadb-install-db")
	}
	return err
}

// mariadbBin is the path of a program; Debian has the server where only root looks.
func mariadbBin(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/" + name)
}

// StartMariaDB makes a server's directory, a temporary one, and starts it.
func StartMariaDB(ctx context.Context) (m *MariaDB, err error) {
	install, err := mariadbBin("mariadb-install-db")
	if err != nil {
		return nil, err
	}
	who, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "troupe-bench-db-")
	if err != nil {
		return nil, err
	}
	m = &MariaDB{dir: dir, who: who}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if who != nil {
		if err := os.Chown(dir, int(who.Uid), int(who.Gid)); err != nil {
			return m, err
		}
	}
	initdb := exec.CommandContext(ctx, install, "--no-defaults", "--datadir="+m.data(), "--auth-root-authentication-method=normal", "--skip-test-db", "--cross-bootstrap")
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	initdb.Dir = dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return m, fmt.Errorf("mariadb-install-db: %w: %s", err, out)
	}
	return m, m.start(ctx)
}

func (m *MariaDB) data() string { return filepath.Join(m.dir, "data") }

func (m *MariaDB) start(ctx context.Context) error {
	bin, err := mariadbBin("mariadbd")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), bin, "--no-defaults", "--datadir="+m.data(), "--socket="+m.socket(), "--skip-networking",
		"--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=256M", "--max-connections=200", "--skip-log-bin")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: m.who}
	cmd.Dir = m.dir
	if m.p, err = proc.Start(cmd, m.dir, "mariadb"); err != nil {
		return err
	}
	return answers(ctx, m.p, func(ctx context.Context) error { return m.do(ctx, "SELECT 1") })
}

func (m *MariaDB) socket() string { return filepath.Join(m.dir, "s") }

func (m *MariaDB) do(ctx context.Context, query string) error {
	db, err := sql.Open("mysql", m.DSN(""))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(ctx, query)
	return err
}

// DSN is the data source name of a database, for github.com/go-sql-driver/mysql.
func (m *MariaDB) DSN(database string) string {
	return fmt.Sprintf("root@unix(%s)/%s", m.socket(), database)
}

// Database makes a new database.
func (m *MariaDB) Database(ctx context.Context) (string, error) {
	m.n++
	name := fmt.Sprintf("bench%d", m.n)
	return name, m.do(ctx, "CREATE DATABASE "+name)
}

// Restart kills the server and starts it again.
func (m *MariaDB) Restart(ctx context.Context) error {
	m.p.Kill()
	return m.start(ctx)
}

// Close ends the server and removes its directory.
func (m *MariaDB) Close() {
	if m.p != nil {
		m.p.Stop(syscall.SIGTERM, 10*time.Second)
	}
	_ = os.RemoveAll(m.dir)
}
