package inspect

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/script"
)

//go:embed read.lua
var readSource string

var readScript = script.New("inspect.read", readSource)

// text is a job as it was read: whole, or of a long one both ends.
type text struct {
	head, tail string // all of it and ""
	size       int64  // of the whole
}

func (t text) cut() bool { return t.size > int64(len(t.head)) }

// read is a text with its score or the name of its field.
type read struct {
	text
	score float64 // of a set
	field string  // of a hash
}

// The values of reading.where: the key's type, and the end to begin at.
const (
	fromHead  = "head" // of a list, positions from there
	fromTail  = "tail"
	fromLow   = "low" // of a set, ranks from there
	fromHigh  = "high"
	scoreUp   = "up" // of a set, from a score on
	scoreDown = "down"
	scanned   = "scan"
	ofHash    = "hash"
)

// reading says which jobs to read.
type reading struct {
	where string
	key   string
	first string // a position, a rank, a score or a cursor
	count int    // at most
	least int    // at least, however long they are
	glob  string
}

func position(where, key string, first, count, least int) reading {
	return reading{where: where, key: key, first: strconv.Itoa(first), count: count, least: least}
}

// window is what a reading returned.
type window struct {
	more bool // there are more, which the budget of bytes left out
	rank int64
	next uint64
	all  []read

	fault error // the key is of another type
}

// readBudget bounds the bytes of jobs that Redis copies for one reading, except for its first jobs (least).
const readBudget = 16 << 20

// read does some readings, and sends other commands with them. If MaxRead is set, a script cuts
// long jobs on the server; if scripts are refused, jobs are read whole.
func (i *Inspector) read(ctx context.Context, rs []reading, others ...redis.Cmder) ([]window, error) {
	all, err := i.readEach(ctx, rs, others...)
	for _, w := range all {
		err = cmp.Or(err, w.fault)
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// readEach is read where a key of another type holds nothing of ours.
func (i *Inspector) readEach(ctx context.Context, rs []reading, others ...redis.Cmder) ([]window, error) {
	cmds := slices.Clone(others)
	plain := i.MaxRead <= 0 || i.noScripts.Load()
	for _, r := range rs {
		if plain {
			cmds = append(cmds, r.command(ctx))
		} else {
			cmds = append(cmds, i.cutting(ctx, "evalsha", readScript.Hash(), r))
		}
	}
	for chunk := range slices.Chunk(cmds, pipeMax) {
		pipe := i.db().Pipeline()
		for _, cmd := range chunk {
			_ = pipe.Process(ctx, cmd) // only queues it
		}
		if _, err := pipe.Exec(ctx); err != nil && !slices.ContainsFunc(chunk, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
			return nil, err // a hook of the given client's
		}
	}
	for _, cmd := range others {
		if err := cmd.Err(); err != nil && !absent(err) {
			return nil, err
		}
	}
	all := make([]window, len(rs))
	for n, r := range rs {
		cmd := cmds[len(others)+n]
		if !plain {
			cmd = i.again(ctx, r, cmd)
		}
		w, err := i.window(ctx, r, cmd)
		if err != nil && !absent(err) {
			return nil, err
		}
		w.fault = err
		all[n] = w
	}
	return all, nil
}

// cutting is the call of the script that reads jobs and cuts the long ones.
func (i *Inspector) cutting(ctx context.Context, name, body string, r reading) redis.Cmder {
	cmd := redis.NewStringSliceCmd(ctx, name, body, 1, r.key, r.where, i.MaxRead-i.MaxRead/4, i.MaxRead/4, readBudget, r.least, r.first, r.count, r.glob)
	cmd.SetFirstKeyPos(3) // a cluster client finds the node by it
	return cmd
}

// again asks once more where the script was not known, and by a plain command where scripts are refused.
func (i *Inspector) again(ctx context.Context, r reading, cmd redis.Cmder) redis.Cmder {
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		cmd = i.cutting(ctx, "eval", readSource, r)
		_ = i.db().Process(ctx, cmd) // its error is cmd's
	}
	reply, ok := errors.AsType[redis.Error](cmd.Err())
	if !ok || absent(reply) {
		return cmd
	}
	if redis.HasErrorPrefix(reply, "NOPERM") {
		i.noScripts.Store(true)
	}
	cmd = r.command(ctx)
	_ = i.db().Process(ctx, cmd) // its error is cmd's
	return cmd
}

// command is the plain one for a reading.
func (r reading) command(ctx context.Context) redis.Cmder {
	first, _ := strconv.Atoi(r.first)
	switch r.where {
	case fromHead:
		return redis.NewStringSliceCmd(ctx, "lrange", r.key, first, first+r.count-1)
	case fromTail:
		return redis.NewStringSliceCmd(ctx, "lrange", r.key, -first-r.count, -first-1)
	case fromLow:
		return redis.NewZSliceCmd(ctx, "zrange", r.key, first, first+r.count-1, "withscores")
	case fromHigh:
		return redis.NewZSliceCmd(ctx, "zrange", r.key, first, first+r.count-1, "rev", "withscores")
	case scoreUp:
		return redis.NewZSliceCmd(ctx, "zrange", r.key, r.first, "+inf", "byscore", "limit", 0, r.count, "withscores")
	case scoreDown:
		return redis.NewZSliceCmd(ctx, "zrange", r.key, r.first, "-inf", "byscore", "rev", "limit", 0, r.count, "withscores")
	case scanned:
		return redis.NewScanCmd(ctx, nil, "zscan", r.key, r.first, "match", r.glob, "count", r.count)
	default:
		return redis.NewMapStringStringCmd(ctx, "hgetall", r.key)
	}
}

// window reads an answer.
func (i *Inspector) window(ctx context.Context, r reading, cmd redis.Cmder) (w window, err error) {
	if err := cmd.Err(); err != nil {
		return w, err
	}
	w.rank = -1
	switch cmd := cmd.(type) {
	case *redis.MapStringStringCmd:
		for field, value := range cmd.Val() {
			w.all = append(w.all, read{text: i.ends(value), field: field})
		}
	case *redis.ScanCmd:
		var page []string
		for page, w.next = cmd.Val(); len(page) >= 2; page = page[2:] {
			score, _ := strconv.ParseFloat(page[1], 64) // Redis's own text
			w.all = append(w.all, read{text: i.ends(page[0]), score: score})
		}
	case *redis.ZSliceCmd:
		for _, z := range cmd.Val() {
			raw, _ := z.Member.(string)
			w.all = append(w.all, read{text: i.ends(raw), score: z.Score})
		}
		if i.MaxRead > 0 && (r.where == scoreUp || r.where == scoreDown) && len(w.all) > 0 {
			// Nobody could ask for the rank of a cut one later: its bytes are not kept.
			rank := i.db().ZRank
			if r.where == scoreDown {
				rank = i.db().ZRevRank
			}
			raw, _ := cmd.Val()[0].Member.(string)
			if at, err := rank(ctx, r.key, raw).Result(); err == nil {
				w.rank = at
			}
		}
	case *redis.StringSliceCmd:
		if name, _ := cmd.Args()[0].(string); name == "lrange" {
			for _, raw := range cmd.Val() {
				w.all = append(w.all, read{text: i.ends(raw)})
			}
			if r.where == fromTail {
				slices.Reverse(w.all)
			}
			return w, nil
		}
		return cutWindow(cmd.Val(), r.where)
	}
	return w, nil
}

// cutWindow reads the answer of the script.
func cutWindow(reply []string, where string) (w window, err error) {
	const before, each = 2, 4
	if len(reply) < before || (len(reply)-before)%each != 0 {
		return w, fmt.Errorf("read jobs: got %d values", len(reply))
	}
	w.more = reply[0] == "1"
	if where == scanned {
		w.next, err = strconv.ParseUint(reply[1], 10, 64)
	} else {
		w.rank, err = strconv.ParseInt(reply[1], 10, 64)
	}
	for reply = reply[before:]; len(reply) > 0 && err == nil; reply = reply[each:] {
		one := read{text: text{head: reply[1], tail: reply[2]}, field: reply[3]}
		one.size, err = strconv.ParseInt(reply[0], 10, 64)
		if where != ofHash && reply[3] != "" {
			one.score, _ = strconv.ParseFloat(reply[3], 64) // Redis's own text
		}
		w.all = append(w.all, one)
	}
	return w, err
}

// ends is what is kept of a job that was read whole.
func (i *Inspector) ends(raw string) text {
	t := text{head: raw, size: int64(len(raw))}
	if tail := i.MaxRead / 4; i.MaxRead > 0 && len(raw) > i.MaxRead {
		t.head, t.tail = string([]byte(raw[:i.MaxRead-tail])), string([]byte(raw[len(raw)-tail:])) // copies: the whole is let go
	}
	return t
}

// page reads the jobs at limit positions or ranks from first on: few at first, and more as long as
// they are short.
func (i *Inspector) page(ctx context.Context, where, key string, first, limit int, others ...redis.Cmder) (all []read, err error) {
	step := limit
	if i.MaxRead > 0 && i.noScripts.Load() {
		step = 1
	}
	for len(all) < limit {
		n := min(step, limit-len(all))
		w, err := i.read(ctx, []reading{position(where, key, first+len(all), n, 1)}, others...)
		if err != nil {
			return nil, err
		}
		others = nil
		all = append(all, w[0].all...)
		if len(w[0].all) < n && !w[0].more {
			break
		}
		step = pageAfter(step, limit, w[0].all)
	}
	return all, nil
}

// pageAfter is how many jobs are to be read next, after so many of such lengths.
func pageAfter(limit, most int, read []read) int {
	size := int64(0)
	for _, one := range read {
		size += one.size
	}
	switch {
	case size > pageBytes:
		return max(1, int(int64(len(read))*pageBytes/size))
	case size < pageBytes/2:
		return min(most, 2*limit)
	}
	return limit
}

// firsts reads one end of lists, of each the job there; the zero text where there is none.
func (i *Inspector) firsts(ctx context.Context, where string, lists []string) ([]text, error) {
	rs := make([]reading, len(lists))
	for n, key := range lists {
		rs[n] = position(where, key, 0, 1, 1)
	}
	all := make([]text, len(lists))
	windows, err := i.readEach(ctx, rs)
	for n, w := range windows {
		if len(w.all) > 0 {
			all[n] = w.all[0].text
		}
	}
	return all, err
}
