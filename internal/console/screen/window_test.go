package screen_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/console/screen"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// counted counts commands, and of those that read rows how many came.
type counted struct{ commands, rows, requests atomic.Int64 }

func (c *counted) note(cmd redis.Cmder) {
	c.commands.Add(1)
	switch cmd := cmd.(type) {
	case *redis.ZSliceCmd:
		c.rows.Add(int64(len(cmd.Val())))
	case *redis.StringSliceCmd:
		if strings.HasPrefix(cmd.Name(), "eval") { // two values, and four for each row
			c.rows.Add(int64(max(0, len(cmd.Val())-2) / 4))
			break
		}
		c.rows.Add(int64(len(cmd.Val())))
	case *redis.Cmd:
		if values, err := cmd.StringSlice(); err == nil {
			c.rows.Add(int64(len(values) / 2))
		}
	}
	if cmd.Name() == "rpush" && strings.Contains(fmt.Sprint(cmd.Args()), "troupe:requests:") {
		c.requests.Add(1)
	}
}

func (c *counted) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *counted) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { defer c.note(cmd); return next(ctx, cmd) }
}

func (c *counted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			c.note(cmd)
		}
		return err
	}
}

// A look at a set of very many jobs costs what one at a hundred costs, and holds no more.
func TestManyJobs(t *testing.T) {
	const size = 200_000
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	fill := `for i = 1, ARGV[1] do
		redis.call('ZADD', 'dead', i, '{"class":"Many","args":[' .. i .. '],"jid":"j' .. i .. '","queue":"low"}')
		if i % 10 == 0 then redis.call('LPUSH', 'queue:low', '{"class":"Many","args":[],"jid":"q' .. i .. '"}') end
	end
	return 1`
	loading := rdb.Options()
	loading.ReadTimeout = time.Minute
	slow := redis.NewClient(loading)
	defer func() { _ = slow.Close() }()
	harness.OK(t, slow.Eval(ctx, fill, nil, size).Err())
	c := &counted{}
	rdb.AddHook(c)
	look := source(rdb)
	for _, q := range []screen.Query{
		{Page: page("dead")}, {Page: page("dead"), From: size / 2}, {Page: page("dead"), From: size - 20}, {Page: screen.Page{Name: "queue", Arg: "low"}, From: 1000},
		{Page: page("dead"), Filter: "j199123"}, {Page: page("dead"), Filter: "nothing of this"}, {Page: screen.Page{Name: "queue", Arg: "low"}, Filter: "nothing"},
	} {
		q.Rows, q.Width = 20, 80
		before, rows := c.commands.Load(), c.rows.Load()
		p := harness.Must(look.Look(ctx, q))(t)
		commands, rows := c.commands.Load()-before, c.rows.Load()-rows
		// one command for each row asks how far an iterable job has come
		if q.Filter == "" && (commands > 10+int64(len(p.Rows)) || rows > 40 || len(p.Rows) > 40 || p.Total < size/10) {
			t.Errorf("%v: %d commands, %d rows came, %d are shown of %d", q, commands, rows, len(p.Rows), p.Total)
		}
		if q.Filter != "" && (rows > 20_000 || len(p.Rows) > 1 || !strings.HasPrefix(p.Note, "searched 5,000 of ") && len(p.Rows) == 0) {
			t.Errorf("%v: %d rows came, %d are shown: %s", q, rows, len(p.Rows), p.Note)
		}
	}
	s := show(t, 80, 12, screen.Options{Source: look, Page: page("dead")})
	s.Await("1/200,000")
	s.Type("G")
	s.Await("200,000/200,000")
	s.Await(" j1 ")
	s.Type("k")
	s.Await("199,999/200,000")
}

// Processes are asked to publish what is so now once a second at most, and with ReadOnly never.
func TestProcessesAreAskedSeldom(t *testing.T) {
	rdb, _ := redistest.New(t)
	processes(t, rdb)
	c := &counted{}
	rdb.AddHook(c)
	for _, readOnly := range []bool{true, false} {
		look := &screen.Redis{Fleet: fleet.New(rdb, nil), ReadOnly: readOnly}
		began := time.Now()
		for range 4 {
			for _, name := range []string{"overview", "processes", "tree", "queues", "running", "explain"} {
				harness.Must(look.Look(t.Context(), screen.Query{Page: screen.Page{Name: name, Arg: map[string]string{"explain": "x"}[name]}, Rows: 20, Width: 80}))(t)
			}
		}
		asked, most := c.requests.Load(), int64(time.Since(began)/time.Second)+1
		if readOnly && asked != 0 || !readOnly && (asked < 1 || asked > most) {
			t.Errorf("read-only %v: asked %d times, expected %d at most", readOnly, asked, most)
		}
	}
}
