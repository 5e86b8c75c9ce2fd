// Package scenario measures. Each scenario starts stores and worker processes of
// its own for every round, takes the contenders in turn, and notes what it saw
// from outside in a result.Set.
package scenario

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupehq/troupe/bench/internal/contender"
	"github.com/troupehq/troupe/bench/internal/meter"
	"github.com/troupehq/troupe/bench/internal/result"
	"github.com/troupehq/troupe/bench/internal/server"
)

// Lab is what all scenarios share: sizes, directory, stores, results.
type Lab struct {
	Size Size
	Only []string // contenders that take part; none means all
	Set  *result.Set
	Log  io.Writer // a line per measurement

	dir     string
	starts  int
	images  map[string]string // format and load -> file, or template database
	pg      *server.Postgres
	missing map[string]error
	once    sync.Once
}

// NewLab makes a lab. Close it.
func NewLab(ctx context.Context, size Size, log io.Writer) (*Lab, error) {
	if err := server.RedisMissing(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "troupe-bench-")
	if err != nil {
		return nil, err
	}
	set := &result.Set{Machine: result.ThisMachine(ctx), About: map[string]string{}}
	return &Lab{Size: size, Set: set, Log: log, dir: dir, images: map[string]string{}, missing: map[string]error{}}, nil
}

// Close ends what still runs and removes all files.
func (l *Lab) Close() {
	l.once.Do(func() {
		if l.pg != nil {
			l.pg.Close()
		}
		_ = os.RemoveAll(l.dir)
	})
}

// contenders returns those of names that take part and can run here. Who can
// not is listed in the results.
func (l *Lab) contenders(names ...string) (out []contender.Contender) {
	for _, c := range contender.All() {
		if !slices.Contains(names, c.Name) || len(l.Only) > 0 && !slices.Contains(l.Only, c.Name) {
			continue
		}
		if c.Missing != nil {
			if _, asked := l.missing[c.Name]; !asked {
				l.missing[c.Name] = c.Missing()
				if err := l.missing[c.Name]; err != nil {
					l.Set.Left = append(l.Set.Left, c.Name+": "+err.Error())
				}
			}
			if l.missing[c.Name] != nil {
				continue
			}
		}
		l.Set.About[c.Name] = c.About
		out = append(out, c)
	}
	return out
}

// say logs one line.
func (l *Lab) say(format string, args ...any) {
	_, _ = fmt.Fprintf(l.Log, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// store is a Redis of a measurement's own, or a database of the one PostgreSQL.
type store struct {
	contender.Store
	redis    *server.Redis
	pg       *server.Postgres
	database string
}

// open starts a store with the data of load. The data is made once; then each
// store starts from a copy of the file.
func (l *Lab) open(ctx context.Context, f contender.Format, load contender.Load) (*store, error) {
	if load.Jobs == 0 && !f.Postgres {
		return l.start(ctx, f, "")
	}
	key := fmt.Sprint(f.Name, load)
	image, ok := l.images[key]
	if !ok {
		var err error
		if image, err = l.fill(ctx, f, load); err != nil {
			return nil, fmt.Errorf("fill %s: %w", f.Name, err)
		}
		l.images[key] = image
	}
	return l.start(ctx, f, image)
}

func (l *Lab) fill(ctx context.Context, f contender.Format, load contender.Load) (string, error) {
	st, err := l.start(ctx, f, "")
	if err != nil {
		return "", err
	}
	if err := f.Fill(ctx, st.Store, load); err != nil {
		st.close()
		return "", err
	}
	if f.Postgres {
		st.Pool.Close() // a template has no users
		return st.database, nil
	}
	image := filepath.Join(l.dir, fmt.Sprintf("image-%d.rdb", len(l.images)))
	err = st.redis.Save(ctx, image)
	st.close()
	return image, err
}

func (l *Lab) start(ctx context.Context, f contender.Format, image string) (*store, error) {
	if !f.Postgres {
		r, err := server.StartRedis(ctx, l.dir, image)
		if err != nil {
			return nil, err
		}
		return &store{Store: contender.Store{Redis: r.Client}, redis: r}, nil
	}
	if l.pg == nil {
		pg, err := server.StartPostgres(ctx)
		if err != nil {
			return nil, err
		}
		l.pg = pg
	}
	database, err := l.pg.Database(ctx, image)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, l.pg.URL(database))
	if err != nil {
		return nil, err
	}
	return &store{Store: contender.Store{Pool: pool}, pg: l.pg, database: database}, nil
}

// usage is what the store has done since it started; of PostgreSQL only the
// processor time is known.
func (s *store) usage(ctx context.Context) (meter.Info, error) {
	if s.redis == nil {
		return meter.Info{CPU: s.pg.CPU()}, nil
	}
	return meter.Read(ctx, s.Redis)
}

func (s *store) close() {
	if s.redis != nil {
		s.redis.Close()
		return
	}
	s.Pool.Close()
	_ = s.pg.Drop(context.Background(), s.database)
}
