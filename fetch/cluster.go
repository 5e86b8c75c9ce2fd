package fetch

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// takeOnCluster asks the places in the order of the wants, each for what is still
// wanted: first what was drawn for its queue, then what others lack.
func (f *fetcher) takeOnCluster(
	ctx context.Context, in *incarnation, n int, wants []Want, acks map[*place][]Unit, units *[]Unit,
) error {
	dry := make(map[string]bool)
	if len(wants) > 0 {
		paused, err := f.rdb.SMembers(ctx, keys.Paused).Result()
		if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return err
		}
		f.mu.Lock()
		clear(f.paused)
		for _, name := range paused {
			dry[name] = true
			if q, known := f.index[name]; known {
				f.pause(q, true)
			}
		}
		f.mu.Unlock()
	}
	left := f.env.Bytes
	for _, second := range []bool{false, true} {
		for _, want := range wants {
			p := in.placeOf(f.index[want.Queue])
			r := &request{n: min(n-len(*units), want.N)}
			if second {
				r.n = n - len(*units)
			}
			if dry[want.Queue] || left <= 0 || r.n <= 0 {
				continue
			}
			r.wants = []Want{{Queue: want.Queue, N: r.n}}
			r.acks, r.bytes = acks[p], left
			got, err := p.take(ctx, r)
			*units = append(*units, got.units...)
			if err != nil {
				return err
			}
			delete(acks, p)
			left -= got.bytes
			dry[want.Queue] = len(got.units) < r.n
		}
	}
	for p, some := range acks {
		got, err := p.take(ctx, &request{acks: some})
		*units = append(*units, got.units...)
		if err != nil {
			return err
		}
	}
	return nil
}
