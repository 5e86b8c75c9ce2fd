package fetch

import (
	"crypto/sha1"
	"fmt"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe/internal/keys"
)

func digestOf(job string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(job))) } //nolint:gosec // as the script

// fill draws what each key holds that scripts are tried with.
func fill(t *rapid.T) (writes [][]any) {
	do := func(args ...any) { writes = append(writes, args) }
	all := []string{
		queueA, queueB, indexA, keys.Paused, keys.Retry, keys.Schedule, keys.Dead, keys.Queues, unread, keys.Rescue,
		common.Lease, common.Expiries, common.Owners, keys.Recovered, keys.RecoveredLog, keys.ClusterUnreadable("a"),
		"troupe:lock:1", keys.Conflicts, "uniquejobs:1:LOCKED", "troupe:result:1",
	}
	for _, field := range append(fields, "3.1") {
		all = append(all, listOf(field))
	}
	for _, key := range all {
		switch rapid.IntRange(0, 9).Draw(t, key) {
		case 0, 1: // absent
			continue
		case 2:
			do("SET", key, "wrong type, mostly")
			continue
		}
		switch key {
		case indexA:
			mark := rapid.SampledFrom([]string{"1 1", "1 1", "1 1", "2 3", "fenced 5 1 1", ""}).Draw(t, "mark")
			if mark != "" {
				do("HSET", key, "!", mark)
			}
			for _, field := range fields {
				if rapid.Bool().Draw(t, "names "+field) {
					do("HSET", key, field, "a 7")
				}
			}
			if rapid.IntRange(0, 4).Draw(t, "tombstone") == 0 {
				do("PEXPIRE", key, 60000)
			}
		case "troupe:result:1":
			do("SET", key, "an older one", "PX", 60000)
		case "troupe:lock:1":
			do("SET", key, rapid.SampledFrom([]string{"j1", "j2"}).Draw(t, "holder"), "PX", 60000)
		case keys.Conflicts:
			do("HSET", key, "troupe:lock:2", "j1")
		case "uniquejobs:1:LOCKED":
			for _, jid := range rapid.SliceOfNDistinct(jobGen, 1, 2, rapid.ID).Draw(t, "holders") {
				do("HSET", key, jid, "1.5")
			}
			do("SET", "uniquejobs:1", "j1")
			do("ZADD", "uniquejobs:digests", "1", "uniquejobs:1")
		case unread:
			do("HSET", key, "1 "+digestOf("x"), rapid.IntRange(1, 2).Draw(t, "tries"))
		case common.Lease:
			do("SET", key, "1", "PX", 60000)
		case keys.Rescue:
			do("SET", key, rapid.SampledFrom([]string{"1", "2"}).Draw(t, "token"), "PX", 60000)
		case common.Expiries:
			for _, id := range rapid.SampledFrom([][]string{{idA}, {idB}, {idA, idB}}).Draw(t, "indexed") {
				do("ZADD", key, rapid.SampledFrom([]string{"1", "2", "4000000000000"}).Draw(t, "expiry"), id)
			}
		case common.Owners:
			for _, id := range rapid.SampledFrom([][]string{{idA}, {idB}, {idA, idB}}).Draw(t, "registered") {
				do("HSET", key, id, `{"v":2,"queues":["a","b"]}`)
			}
		case keys.Queues, keys.Paused:
			for _, name := range rapid.SampledFrom([][]string{{"a"}, {"b"}, {"a", "b"}, {"c"}}).Draw(t, "names") {
				do("SADD", key, name)
			}
		case keys.Recovered:
			for _, job := range rapid.SliceOfN(jobGen, 1, 3).Draw(t, "counted") {
				do("ZADD", key, rapid.SampledFrom([]string{"1", "2", "4000000000000"}).Draw(t, "at"), job)
			}
		case keys.RecoveredLog:
			for _, job := range rapid.SliceOfN(jobGen, 1, 3).Draw(t, "logged") {
				do("HSET", key, job, "[0]")
			}
		case keys.Retry, keys.Schedule, keys.Dead:
			for range rapid.IntRange(1, 4).Draw(t, "members") {
				do("ZADD", key, rapid.SampledFrom([]string{"1", "2", "3.5"}).Draw(t, "score"), payloadGen.Draw(t, "member"))
			}
		default: // lists
			for range rapid.IntRange(1, 12).Draw(t, "jobs") {
				do("LPUSH", key, payloadGen.Draw(t, "job"))
			}
		}
	}
	return writes
}
