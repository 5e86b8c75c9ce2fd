package fetch

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/script/twins"
)

// The names that scripts are tried with: two fetchers, two queues.
const (
	idA = "h:1:aa#default.1"
	idB = "h:2:bb#default.1"
)

var (
	queueA, queueB = keys.Queue("a"), keys.Queue("b")
	wipA, wipB     = keys.WIP("a", idA), keys.WIP("b", idA)
	lease, fenced  = keys.Lease(idA), keys.Fenced(idA)
	place          = keys.WIP("a", idB) // on a cluster
	lapA, lapB     = keys.Lap("a"), keys.Lap("b")
	lists          = []string{keys.Parcels(idA, "1") + "0", keys.Parcels(idA, "1") + "1"}
	batonKey       = keys.Baton("ab")
	lineKey        = keys.Line("ab")
	tries          = map[string]twins.Try{
		"take": func(t *rapid.T) ([]string, []any) {
			args := []any{generation(t), 5000, "1"}
			args = append(args, rapid.IntRange(0, 9).Draw(t, "n"))
			wants := rapid.SampledFrom([][]any{{}, {1, 3}, {2, 9, 1, 9}, {1, 2, 2, 1}, {2, 0, 1, 0}}).Draw(t, "wants")
			names := []string{lease, keys.Paused, queueA, wipA, queueB, wipB}
			if rapid.Bool().Draw(t, "laps") {
				names = append(names, lapA, wipA, lapB, wipB)
				wants = rapid.SampledFrom([][]any{{3, 3, 1, 3}, {4, 9, 2, 9, 3, 9, 1, 9}, {3, 2, 1, 2, 4, 1, 2, 1}}).Draw(t, "wants of laps")
			}
			name, flags := "", ""
			if rapid.Bool().Draw(t, "idle") {
				name, flags = "me", flagsGen.Draw(t, "flags")
				names = append(names, batonKey, lineKey)
			}
			parcels, bytes := rapid.IntRange(0, 3).Draw(t, "parcels"), 1<<20
			if parcels == 0 { // those Redis 7 measures otherwise
				bytes = rapid.SampledFrom([]int{1, 7, 1 << 20}).Draw(t, "bytes")
			}
			args = append(append(args, len(wants)/2, name, flags, rapid.SampledFrom([]int{1, 2, 32}).Draw(t, "parcel"),
				parcels, keys.Parcels(idA, "1"), bytes), wants...)
			if rapid.Bool().Draw(t, "open") {
				args = append(args, -rapid.IntRange(1, 2).Draw(t, "of"), 1, parcelGen.Draw(t, "parcel to open"))
			}
			for _, q := range rapid.Permutation([]int{1, 2}).Draw(t, "acks")[:rapid.IntRange(0, 2).Draw(t, "queues")] {
				acked := rapid.SliceOfN(receiptGen, 1, 4).Draw(t, "acked")
				args = append(append(args, q, len(acked)), anys(acked)...)
				if rapid.Bool().Draw(t, "whole") {
					args = append(args, fmt.Sprint(q, "+"), 4, "1000+", lists[0], "1002+", lists[1])
				}
			}
			return names, args
		},
		"sit": func(t *rapid.T) ([]string, []any) {
			return []string{batonKey, lineKey, keys.Paused, queueA, queueB},
				[]any{"me", flagsGen.Draw(t, "flags"), rapid.SampledFrom([]string{"", "1"}).Draw(t, "leave")}
		},
		"settle": func(t *rapid.T) ([]string, []any) {
			args := []any{generation(t), 5000, "a"}
			apart := rapid.SliceOfN(parcelGen, 0, 2).Draw(t, "parcels")
			args = append(append(args, len(apart)), anys(apart)...)
			for range rapid.IntRange(0, 3).Draw(t, "groups") {
				if rapid.IntRange(0, 3).Draw(t, "whole") == 0 {
					place := rapid.IntRange(0, 4).Draw(t, "place")
					args = append(args, place, 1, "+", "", "3", parcelGen.Draw(t, "parcel"), rapid.SampledFrom(lists).Draw(t, "list"))
					if place > 0 && place < 4 {
						args = append(args, "2.5")
					}
					args = append(args, payloadGen.Draw(t, "payload"))
					continue
				}
				receipts := rapid.SliceOfNDistinct(receiptGen, 1, 4, rapid.ID).Draw(t, "receipts")
				place, own := rapid.IntRange(0, 4).Draw(t, "place"), rapid.SampledFrom([]string{"", "1"}).Draw(t, "own")
				args = append(args, place, len(receipts), own,
					rapid.SampledFrom([]string{"", "2"}).Draw(t, "before"), rapid.SampledFrom([]string{"", "1", "3"}).Draw(t, "max"))
				args = append(args, anys(receipts)...)
				for range receipts {
					if place > 0 && place < 4 {
						args = append(args, rapid.SampledFrom([]string{"1", "2.5", "1795225036.2125871"}).Draw(t, "score"))
					}
					if own == "" {
						args = append(args, rapid.OneOf(payloadGen, rapid.Just(strings.Repeat("x", 1001))).Draw(t, "payload"))
					}
				}
			}
			return []string{lease, wipA, queueA, keys.Retry, keys.Schedule, keys.Dead, keys.Queues}, args
		},
		"place": func(t *rapid.T) ([]string, []any) {
			var args []any
			for range rapid.IntRange(0, 5).Draw(t, "moves") {
				place, score := rapid.IntRange(0, 4).Draw(t, "place"), rapid.SampledFrom([]string{"5", "6"}).Draw(t, "score")
				args = append(args, place, score, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "queue"), payloadGen.Draw(t, "payload"),
					rapid.SampledFrom([]string{"", "2"}).Draw(t, "before"), rapid.SampledFrom([]string{"", "3"}).Draw(t, "max"))
			}
			return []string{keys.Retry, keys.Schedule, keys.Dead, keys.Queues, queueA, queueB}, args
		},
		"pop": func(t *rapid.T) ([]string, []any) {
			args := []any{rapid.IntRange(0, 9).Draw(t, "n"), rapid.SampledFrom([]int{1, 7, 1 << 20}).Draw(t, "bytes")}
			wants := rapid.SampledFrom([][]any{{1, 3}, {2, 9, 1, 9}, {1, 2, 2, 1}}).Draw(t, "wants")
			return []string{keys.Paused, queueA, queueB}, append(args, wants...)
		},
		"register": func(t *rapid.T) ([]string, []any) {
			return []string{keys.Procs, keys.Leases, lease, fenced}, []any{idA, `["a","b"]`, generation(t), 5000}
		},
		"renew": func(t *rapid.T) ([]string, []any) {
			return []string{keys.Procs, keys.Leases, lease}, []any{idA, generation(t), 5000}
		},
		"resume": func(t *rapid.T) ([]string, []any) {
			return []string{keys.Procs, keys.Leases, lease, fenced, wipA, wipB}, append([]any{idA, generation(t), 5000}, lostPage(t)...)
		},
		"restore": func(t *rapid.T) ([]string, []any) {
			args := []any{generation(t), 5000}
			for range rapid.IntRange(1, 4).Draw(t, "units") {
				args = append(args, receiptGen.Draw(t, "receipt"), payloadGen.Draw(t, "payload"))
			}
			return []string{lease, wipA}, args
		},
		"leave": func(*rapid.T) ([]string, []any) {
			return []string{keys.Procs, keys.Leases, lease, wipA, wipB}, []any{idA}
		},
		"look": func(t *rapid.T) ([]string, []any) {
			return []string{keys.Leases, keys.Procs, keys.Laps}[:rapid.IntRange(2, 3).Draw(t, "keys")], []any{rapid.IntRange(0, 1).Draw(t, "skip"), rapid.IntRange(1, 3).Draw(t, "limit")}
		},
		"unlap": func(t *rapid.T) ([]string, []any) {
			return []string{queueA, lapA, queueB, lapB}[:2*rapid.IntRange(1, 2).Draw(t, "laps")], nil
		},
		"fence": func(t *rapid.T) ([]string, []any) {
			names := []string{keys.Procs, keys.Leases, lease, fenced, wipA, wipB}
			if rapid.Bool().Draw(t, "cluster") {
				return names[:4], []any{idA, 5000, "1"}
			}
			return names, []any{idA, 5000}
		},
		"open": func(t *rapid.T) ([]string, []any) {
			return []string{fenced, wipA}, []any{rapid.IntRange(1, 2).Draw(t, "at most")}
		},
		"putback": func(t *rapid.T) ([]string, []any) {
			return []string{fenced, wipA, queueA}, anys(rapid.SliceOfNDistinct(receiptGen, 1, 5, rapid.ID).Draw(t, "receipts"))
		},
		"forget": func(*rapid.T) ([]string, []any) { return []string{keys.Leases, wipA, wipB}, []any{idA} },
		"reindex": func(*rapid.T) ([]string, []any) {
			return []string{keys.Procs, keys.Leases, lease, fenced}, []any{idA, `["a"]`, 5000}
		},
		"index": func(t *rapid.T) ([]string, []any) {
			return []string{keys.Leases}, anys(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{idA, idB}), 1, 2, rapid.ID).Draw(t, "ids"))
		},
		"lock": func(t *rapid.T) ([]string, []any) {
			if rapid.Bool().Draw(t, "take") {
				return []string{keys.Rescue}, []any{generation(t), 5000, "1", rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "own")}
			}
			return []string{keys.Rescue}, []any{generation(t), rapid.SampledFrom([]int{0, 5000}).Draw(t, "ms"), "", ""}
		},
		// Any sorted set and hash of jobs will do for the last three.
		"recall": func(t *rapid.T) ([]string, []any) {
			jobs := rapid.SliceOfN(receiptGen, 1, 4).Draw(t, "jobs")
			return []string{keys.Retry, wipB}, append([]any{rapid.SampledFrom([]int{1000, 4e12}).Draw(t, "window"),
				rapid.IntRange(1, 4).Draw(t, "max")}, anys(jobs)...)
		},
		"reroute": func(t *rapid.T) ([]string, []any) {
			args := []any{5, 60000}
			for range rapid.IntRange(0, 5).Draw(t, "units") {
				place, target := rapid.SampledFrom([]string{"0", "2", "3"}).Draw(t, "place"), rapid.SampledFrom([]string{"8", "9"}).Draw(t, "target")
				args = append(args, receiptGen.Draw(t, "receipt"), place, target, rapid.SampledFrom([]string{"", "a"}).Draw(t, "name"),
					rapid.SampledFrom([]string{"", "1"}).Draw(t, "own"), payloadGen.Draw(t, "payload"),
					rapid.SampledFrom([]string{"", "2"}).Draw(t, "before"), rapid.SampledFrom([]string{"", "1", "3"}).Draw(t, "max"),
					rapid.SampledFrom([]string{"", "1000", "job"}).Draw(t, "job"), rapid.SampledFrom([]string{"", "[1]"}).Draw(t, "recoveries"))
			}
			return []string{fenced, wipA, keys.Schedule, keys.Dead, keys.Queues, keys.Retry, wipB, queueA, queueB}, args
		},
		"cluster_mark": func(t *rapid.T) ([]string, []any) {
			return []string{place}, append([]any{generation(t)}, lostPage(t)...)
		},
		"cluster_take": func(t *rapid.T) ([]string, []any) {
			args := []any{generation(t), rapid.SampledFrom([]string{"1", "?1", "9"}).Draw(t, "prefix"), rapid.IntRange(0, 9).Draw(t, "n"),
				rapid.SampledFrom([]int{1, 7, 1 << 20}).Draw(t, "bytes")}
			return []string{queueA, place}, append(args, anys(rapid.SliceOfN(receiptGen, 0, 4).Draw(t, "acked"))...)
		},
		"cluster_settle": func(t *rapid.T) ([]string, []any) {
			args := []any{generation(t)}
			for range rapid.IntRange(0, 5).Draw(t, "moves") {
				args = append(args, receiptGen.Draw(t, "receipt"), rapid.IntRange(0, 3).Draw(t, "what"),
					rapid.SampledFrom([]string{"", "1"}).Draw(t, "own"), payloadGen.Draw(t, "payload"))
			}
			return []string{queueA, place}, args
		},
		"cluster_restore": func(t *rapid.T) ([]string, []any) {
			args := []any{generation(t)}
			for range rapid.IntRange(1, 4).Draw(t, "units") {
				args = append(args, receiptGen.Draw(t, "receipt"), payloadGen.Draw(t, "payload"))
			}
			return []string{place}, args
		},
		"cluster_leave": func(t *rapid.T) ([]string, []any) { return []string{place}, []any{generation(t)} },
		"cluster_shut":  func(*rapid.T) ([]string, []any) { return []string{place}, []any{5000, "its lease ran out"} },
		"cluster_reroute": func(t *rapid.T) ([]string, []any) {
			args := []any{5, 60000, 5000}
			for range rapid.IntRange(0, 5).Draw(t, "units") {
				args = append(args, receiptGen.Draw(t, "receipt"), rapid.SampledFrom([]int{0, 2, 3}).Draw(t, "where"),
					rapid.SampledFrom([]string{"", "1"}).Draw(t, "own"), payloadGen.Draw(t, "payload"),
					rapid.SampledFrom([]string{"", "1000", "job"}).Draw(t, "job"), rapid.SampledFrom([]string{"", "[1]"}).Draw(t, "recoveries"))
			}
			return []string{place, queueA, queueB, keys.Retry, wipB}, args
		},
		"acquit": func(t *rapid.T) ([]string, []any) {
			return []string{keys.Retry, wipB}, anys(rapid.SliceOfN(receiptGen, 1, 4).Draw(t, "jobs"))
		},
	}

	flagsGen   = rapid.SampledFrom([]string{"", "s", "sb", "sl", "sbe", "e", "sk"})
	receiptGen = rapid.SampledFrom([]string{"1000", "1001", "1002", "1003", "1zzz", "20000", "?1000"})
	parcelGen  = rapid.SampledFrom([]string{"1000+", "1002+", "1zz0+", "2aaa+"})
	payloadGen = rapid.SampledFrom([]string{"", "x", "y", `{"class":"A","args":[1e3]}`, "\x00\xff\r\n", strings.Repeat("long", 20)})
)

// lostPage draws the arguments of a page of what lost calls took.
func lostPage(t *rapid.T) []any {
	return append([]any{rapid.SampledFrom([]int{1, 10, 1000}).Draw(t, "bytes"), rapid.OneOf(rapid.Just(""), receiptGen).Draw(t, "after")},
		anys(rapid.SliceOfN(rapid.SampledFrom([]string{"1", "2", "20", "?1"}), 0, 3).Draw(t, "lost"))...)
}

func generation(t *rapid.T) string {
	return rapid.SampledFrom([]string{"1", "2"}).Draw(t, "generation")
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// fill draws what each key holds.
func fill(t *rapid.T) (writes [][]any) {
	do := func(args ...any) { writes = append(writes, args) }
	all := []string{queueA, queueB, wipA, wipB, place, lease, fenced, keys.Procs, keys.Leases, keys.Retry, keys.Schedule, keys.Dead, keys.Rescue, keys.Queues, keys.Paused, batonKey, lineKey, lapA, lapB, keys.Laps}
	for _, key := range all {
		switch rapid.IntRange(0, 9).Draw(t, key) {
		case 0, 1: // absent
			continue
		case 2:
			do("SET", key, "wrong type, mostly")
			continue
		}
		switch key {
		case keys.Laps:
			do("SADD", key, "a", "b")
		case queueA, queueB, lapA, lapB:
			for range rapid.IntRange(1, 8).Draw(t, "jobs") {
				do("LPUSH", key, payloadGen.Draw(t, "job"))
			}
		case wipA, wipB:
			for range rapid.IntRange(1, 5).Draw(t, "units") {
				do("HSET", key, receiptGen.Draw(t, "receipt"), payloadGen.Draw(t, "unit"))
			}
			for n, list := range lists[:rapid.IntRange(0, 2).Draw(t, "parcels")] {
				do("DEL", list)
				for range rapid.IntRange(0, 4).Draw(t, "units") {
					do("RPUSH", list, payloadGen.Draw(t, "unit"))
				}
				do("HSET", key, parcelGen.Draw(t, "parcel"), fmt.Sprint(n+1, " ", list))
			}
		case place:
			do("HSET", key, "!", rapid.SampledFrom([]string{"1", "2", "dead", "dead 5 why"}).Draw(t, "fence"))
			for range rapid.IntRange(0, 4).Draw(t, "units") {
				do("HSET", key, receiptGen.Draw(t, "receipt"), payloadGen.Draw(t, "unit"))
			}
		case lease:
			do("SET", key, generation(t), "PX", 60000)
			if rapid.IntRange(0, 5).Draw(t, "persistent") == 0 {
				do("PERSIST", key)
			}
		case batonKey:
			do("SET", key, rapid.SampledFrom([]string{"me", "other"}).Draw(t, "holder"), "PX", 60000)
		case lineKey:
			for _, name := range rapid.SampledFrom([][]string{{"me"}, {"other"}, {"me", "other"}}).Draw(t, "standing") {
				do("ZADD", key, rapid.SampledFrom([]string{"1", "2", "4000000000000"}).Draw(t, "looked"), name)
			}
		case fenced, keys.Rescue:
			do("SET", key, generation(t), "PX", 60000)
		case keys.Procs:
			for _, id := range rapid.SampledFrom([][]string{{idA}, {idB}, {idA, idB}}).Draw(t, "registered") {
				do("HSET", key, id, `["a","b"]`)
			}
		case keys.Leases:
			for _, id := range rapid.SampledFrom([][]string{{idA}, {idB}, {idA, idB}}).Draw(t, "indexed") {
				do("ZADD", key, rapid.SampledFrom([]string{"1", "2", "4000000000000"}).Draw(t, "expiry"), id)
			}
		case keys.Queues, keys.Paused:
			for _, name := range rapid.SampledFrom([][]string{{"a"}, {"b"}, {"a", "b"}, {"c"}}).Draw(t, "names") {
				do("SADD", key, name)
			}
		default:
			for range rapid.IntRange(1, 4).Draw(t, "members") {
				do("ZADD", key, rapid.SampledFrom([]string{"1", "2", "3.5"}).Draw(t, "score"), payloadGen.Draw(t, "member"))
			}
		}
	}
	return writes
}

// TestScriptsAreTheSameOnMiniredis runs every script on random states: equal
// replies, equal keys. What holds on the embedded server then holds on Redis.
func TestScriptsAreTheSameOnMiniredis(t *testing.T) {
	pair := twins.New(t)
	files, err := lua.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".lua")
		try := tries[name]
		if try == nil {
			t.Errorf("script %s is not tried", name)
			continue
		}
		t.Run(name, func(t *testing.T) { pair.Check(t, source(name), fill, try) })
	}
}
