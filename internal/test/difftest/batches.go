package difftest

import "pgregory.net/rapid"

// FillBatches draws the keys of batches: B1, whose parent is B2 at times, and B2.
func FillBatches(t *rapid.T) (writes [][]any) {
	do := func(args ...any) { writes = append(writes, args) }
	for _, id := range []string{"B1", "B2"} {
		key := "troupe:batch:" + id
		switch rapid.IntRange(0, 9).Draw(t, id) {
		case 0:
			continue
		case 1:
			do("SET", key, "wrong type")
			continue
		}
		do("HSET", key, "total", 5, "pending", rapid.IntRange(0, 2).Draw(t, "pending"), "unrun", rapid.IntRange(0, 2).Draw(t, "unrun"))
		if rapid.Bool().Draw(t, "parent") && id == "B1" {
			do("HSET", key, "parent", "B2:3")
		}
		for _, field := range []string{"closed", "complete", "success", "death", "cancelled"} {
			if rapid.IntRange(0, 4).Draw(t, field) == 0 || field == "closed" {
				do("HSET", key, field, "1")
			}
		}
		for _, event := range []string{"complete", "success", "death"} {
			if rapid.Bool().Draw(t, "on "+event) {
				do("HSET", key, "on:"+event, `{"class":"C"`, "to:"+event, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "queue"))
			}
		}
		if rapid.Bool().Draw(t, "milliseconds") {
			do("HSET", key, "form", "m")
		}
		if rapid.Bool().Draw(t, "counted") {
			do("SETBIT", key+":ran", rapid.IntRange(0, 9).Draw(t, "ran"), 1)
		}
		if rapid.IntRange(0, 9).Draw(t, "spoilt") == 0 {
			do("LPUSH", key+":done", "x")
		}
		do("PEXPIRE", key, 60000)
	}
	do("ZADD", "troupe:batches", 1, "old", 1800000000, "B1")
	return writes
}

// Batches are those that FillBatches knows; the last is known to nobody.
var Batches = []string{"B1", "B2", "B3"}

// JoinBatch draws the arguments of join of batch.lua.
func JoinBatch(t *rapid.T) []any {
	args := []any{rapid.SampledFrom(Batches).Draw(t, "joined"), 0}
	if rapid.Bool().Draw(t, "new") {
		args = append(args[:1], 2, "name", "n")
	}
	for range rapid.IntRange(0, 3).Draw(t, "jobs") {
		args = append(args, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "queue"), rapid.SampledFrom([]string{"", "", "2.5"}).Draw(t, "score"), `{"class":"J"`)
	}
	return args
}
