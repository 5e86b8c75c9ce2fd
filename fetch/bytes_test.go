package fetch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/redistest"
)

// A Take ends with the unit that reaches its bytes, with parcels and without, on a server
// that does not let us SORT or ask for the size of a list, too; nothing that it copied in
// vain is left.
func TestATakeEndsWithTheUnitThatReachesItsBytes(t *testing.T) {
	server := redistest.Start(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer func() { _ = admin.Close() }()
	for name, tc := range map[string]struct {
		rules   []any
		parcels bool
	}{
		"parcels":                 {[]any{"+@all"}, true},
		"parcels through Lua":     {[]any{"+@all", "-sort"}, true},
		"parcels of unknown size": {[]any{"+@all", "-memory"}, true},
		"units":                   {[]any{"+@all"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			admin.FlushDB(t.Context())
			user := "user" + strings.ReplaceAll(name, " ", "")
			if err := admin.Do(t.Context(), append([]any{"acl", "setuser", user, "on", ">pw", "~*", "&*"}, tc.rules...)...).Err(); err != nil {
				t.Fatal(err)
			}
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr, Username: user, Password: "pw", MaxRetries: -1, Protocol: 2})
			defer func() { _ = rdb.Close() }()
			const bound, large = 40_000, 5_000
			var want []string
			add := func(queue string, n, size int) {
				for range n {
					p := fmt.Sprint(len(want), " ")
					p += strings.Repeat("x", max(0, size-len(p)))
					want = append(want, p)
					admin.LPush(t.Context(), "queue:"+queue, p)
				}
			}
			add("a", 70, 10)
			add("a", 70, large)
			add("a", 1, 3*bound)
			add("a", 1, 3*bound)
			add("a", 300, 10)
			add("b", 100, 2*large)
			add("b", 3, 10)
			env := testEnv(rdb, Strict{"a", "b"})
			env.Bytes = bound
			f := mustOpen(t, env)
			var got []string
			var acks []Unit
			takes, together := 0, 0
			for len(got) < len(want) {
				f.thrift.rest = 0
				if !tc.parcels {
					f.thrift.rest, f.thrift.mean = 1<<20, 0
				}
				units := mustTake(t, f, 1000, acks...)
				if len(units) == 0 {
					break
				}
				takes++
				size := 0
				for _, u := range units {
					if size >= bound {
						t.Errorf("unit %.5q came behind %d bytes, expected at most %d", u.Payload, size, bound)
					}
					size += len(u.Payload)
					if u.Parcel != nil {
						together++
					}
				}
				if len(got)+len(units) < len(want) && size < bound/2 {
					t.Errorf("a take of %d units brought %d bytes, expected about %d", len(units), size, bound)
				}
				got, acks = append(got, payloads(units)...), units
				if lists := len(rdb.Keys(t.Context(), "troupe:parcel:*").Val()); lists > 40 || !tc.parcels && lists > 0 {
					t.Errorf("%d lists of parcels", lists)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("took %d units, expected %d in their order", len(got), len(want))
			}
			if (together > len(want)/2) != tc.parcels {
				t.Errorf("%d of %d units came in parcels", together, len(want))
			}
			mustTake(t, f, 0, acks...)
			noPlaces(t, rdb)
			t.Logf("%d takes for %d units, %d of them in parcels", takes, len(want), together)
		})
	}
}
