package laravel

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/fetch/fetchtest"
)

// The suite's payloads are any bytes; Laravel's are JSON. A bare fetcher wraps them, and so do the
// functions of the harness.
var suite = fetchtest.Harness{
	Name: "laravel", New: newBare, Stays: true, RescueToBack: true, PauseLag: lookTime + 100*time.Millisecond,
	Push: func(ctx context.Context, rdb *redis.Client, queue string, payloads ...[]byte) error {
		for chunk := range slices.Chunk(payloads, 500) {
			values, tokens := make([]any, len(chunk)), make([]any, len(chunk))
			for i, p := range chunk {
				values[i], tokens[i] = wrapped{Bytes: p}.encode(), "1"
			}
			_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.RPush(ctx, bareNames.queue(queue), values...)
				p.RPush(ctx, bareNames.tokens(queue), tokens...)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	},
	Queued: func(ctx context.Context, rdb *redis.Client, queue string) ([][]byte, error) {
		list, err := rdb.LRange(ctx, bareNames.queue(queue), 0, -1).Result()
		if err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") {
			err = nil
		}
		out := make([][]byte, len(list))
		for i, p := range list {
			out[i] = unwrap([]byte(p)).Bytes
		}
		return out, err
	},
	Placed: func(ctx context.Context, rdb *redis.Client, to fetch.Destination) ([]redis.Z, error) {
		var list []redis.Z
		var keys []string
		if to == fetch.ToDead {
			keys = []string{bareNames.failed()}
		} else {
			for _, q := range []string{"a", "b", "c", "d"} {
				keys = append(keys, bareNames.delayed(q))
			}
		}
		for _, key := range keys {
			zs, err := rdb.ZRangeWithScores(ctx, key, 0, -1).Result()
			if err != nil {
				return nil, err
			}
			for _, z := range zs {
				w := unwrap([]byte(z.Member.(string)))
				if w.To == to.String() {
					list = append(list, redis.Z{Score: w.Score, Member: string(w.Bytes)})
				}
			}
		}
		slices.SortStableFunc(list, func(a, b redis.Z) int { return int(a.Score*1e7 - b.Score*1e7) })
		return list, nil
	},
	Listed: func(ctx context.Context, rdb *redis.Client) (names []string, err error) {
		for _, q := range []string{"a", "b", "c", "d"} {
			if rdb.Exists(ctx, bareNames.queue(q)).Val() == 1 {
				names = append(names, q)
			}
		}
		return names, nil
	},
	Pause: func(ctx context.Context, rdb *redis.Client, queue string, paused bool) error {
		key := "cache:illuminate:queue:paused:redis:" + queue
		if paused {
			return rdb.Set(ctx, key, "b:1;", 0).Err()
		}
		return rdb.Del(ctx, key).Err()
	},
	Spoil: func(ctx context.Context, rdb *redis.Client, queue string) (string, error) {
		return bareNames.queue(queue), rdb.Set(ctx, bareNames.queue(queue), "not a list", 0).Err()
	},
	// As a worker of Laravel does it, but for a queue of a wrong type: there Laravel loses the jobs.
	Rescue: func(ctx context.Context, rdb *redis.Client, _ time.Duration) (err error) {
		for _, q := range []string{"a", "b", "c", "d"} {
			err = errors.Join(err, migrate.Run(ctx, rdb, []string{bareNames.reserved(q), bareNames.queue(q), bareNames.tokens(q)}, time.Now().Unix()+1).Err())
		}
		return err
	},
}

var migrate = redis.NewScript(`
if redis.call('EXISTS', KEYS[2]) == 1 and redis.call('TYPE', KEYS[2]).ok ~= 'list' then return {} end
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', redis.call('TIME')[1] .. '.' .. string.format('%06d', redis.call('TIME')[2]))
if #due > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #due - 1)
  for i = 1, #due do
    redis.call('RPUSH', KEYS[2], due[i])
    redis.call('RPUSH', KEYS[3], 1)
  end
end
return due`)

const bareNames = names("app_")

// wrapped is a payload of the suite, and where it was moved.
type wrapped struct {
	Bytes []byte
	To    string
	Score float64
}

func (w wrapped) encode() []byte {
	wrapSeq.Lock()
	defer wrapSeq.Unlock()
	wrapSeq.n++
	return fmt.Appendf(nil, `{"uuid":"%d","job":"suite","data":{"bytes":%q,"to":%q,"score":%q},"attempts":0}`,
		wrapSeq.n, base64.StdEncoding.EncodeToString(w.Bytes), w.To, strconv.FormatFloat(w.Score, 'f', -1, 64))
}

var wrapSeq struct {
	sync.Mutex
	n int64
}

func init() { wrapSeq.n = time.Now().UnixNano() }

func unwrap(p []byte) (w wrapped) {
	if f, err := parseRow(p); err == nil {
		p = f.Payload
	}
	var in struct {
		Data struct{ Bytes, To, Score string }
	}
	if err := json.Unmarshal(p, &in); err != nil {
		return wrapped{Bytes: []byte("not JSON: " + string(p))}
	}
	w.Bytes, _ = base64.StdEncoding.DecodeString(in.Data.Bytes)
	w.To = in.Data.To
	w.Score, _ = strconv.ParseFloat(in.Data.Score, 64)
	return w
}

// bare is a fetcher of the suite's payloads.
type bare struct {
	fetch.Fetcher
	s  *system
	mu sync.Mutex
	of map[string]fetch.Unit // the units as they are, by receipt
}

func newBare(env fetch.Env) (fetch.Fetcher, error) {
	s := &system{Options: Options{Prefix: string(bareNames), Connection: "redis", Tries: -1, Cache: &Cache{Prefix: "cache:"}}}
	if rdb, ok := env.Redis.(*redis.Client); ok {
		s.Cache.Database = rdb.Options().DB
	}
	f, err := s.newFetcher(env)
	return &bare{Fetcher: f, s: s, of: map[string]fetch.Unit{}}, err
}

func (b *bare) real(u fetch.Unit) fetch.Unit {
	b.mu.Lock()
	defer b.mu.Unlock()
	if was, ok := b.of[u.Receipt]; ok {
		return was
	}
	return u
}

func (b *bare) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	own := make([]fetch.Unit, len(acks))
	for i, u := range acks {
		own[i] = b.real(u)
	}
	units, err := b.Fetcher.Take(ctx, n, own)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range units {
		b.of[units[i].Receipt] = units[i]
		units[i].Payload = unwrap(units[i].Payload).Bytes
	}
	return units, err
}

func (b *bare) Settle(ctx context.Context, in []fetch.Move) ([]fetch.Result, error) {
	moves := slices.Clone(in)
	for i := range moves {
		m := &moves[i]
		text := m.Payload
		if text == nil {
			text = m.Unit.Payload
		}
		m.Unit = b.real(m.Unit)
		w := wrapped{Bytes: text, To: m.To.String(), Score: m.Score}
		switch m.To {
		case fetch.ToDead:
			m.Payload = b.s.row(w.encode(), m.Unit.Queue, errors.New("of the suite"), time.Now())
		case fetch.ToRetry, fetch.ToSchedule:
			m.Payload, m.Score = w.encode(), float64(time.Now().Add(time.Hour).Unix())
		default:
			if m.Payload != nil {
				m.Payload = w.encode()
			}
		}
	}
	return b.Fetcher.Settle(ctx, moves)
}

func TestMain(m *testing.M) { fetchtest.Main(m, suite) }

func TestDelivery(t *testing.T) { fetchtest.Delivery(t, suite) }

func TestCrash(t *testing.T) { fetchtest.Crash(t, suite) }
