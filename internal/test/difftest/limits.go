package difftest

import (
	"strings"

	"pgregory.net/rapid"
)

// Clock is the time of scripts behind FixedClock, in seconds.
const Clock = "1700000000.5"

// FixedClock has a script find the same time on both servers.
func FixedClock(src string) string {
	return strings.ReplaceAll(src, "call('TIME')", "{'1700000000', '500000'}")
}

// Rules are those that FillLimits knows; the last is known to nobody.
var Rules = []string{"one", "rate:x", "Old", "none"}

// FillLimits draws the keys of limits on one server.
func FillLimits(t *rapid.T) (writes [][]any) {
	do := func(args ...any) { writes = append(writes, args) }
	limit := rapid.SampledFrom([]string{"0", "1", "2", "3 pinned 1", "2 breaker 2 30", "1000 0 breaker 1 60", "3 pinned 1 breaker 0 5.5"}).Draw(t, "at once")
	rate := rapid.SampledFrom([]string{"1 10", "3 0.25", "0 1", "2 5 pinned 1 1", "2 5 breaker 1 0.5"}).Draw(t, "rate")
	do("HSET", "troupe:limits", "one", limit, "rate", rate, "Old", "2 throttled")
	for _, rule := range Rules {
		slots := map[bool]string{true: "throttled:Old:concurrency.v2", false: "troupe:slots:" + rule}[rule == "Old"]
		for _, jid := range rapid.SliceOfNDistinct(jids, 0, 2, rapid.ID).Draw(t, "slots of "+rule) {
			do("ZADD", slots, rapid.SampledFrom([]string{"1699999999", "1700000010.25", "1700000030"}).Draw(t, "end"), jid)
		}
		for _, member := range rapid.SliceOfNDistinct(held, 0, 3, rapid.ID).Draw(t, "held by "+rule) {
			do("ZADD", "troupe:held:"+rule, rapid.SampledFrom([]string{"1", "2", "1699999990.5"}).Draw(t, "age"), member)
		}
		if rapid.Bool().Draw(t, "known to hold") {
			do("ZADD", "troupe:held", rapid.SampledFrom([]string{"1", "1700000001", "1700000099"}).Draw(t, "due"), rule)
		}
	}
	if rapid.Bool().Draw(t, "spent") {
		do("SET", "troupe:rate:rate:x", rapid.SampledFrom([]string{"1", "1700000000.75", "1700000012"}).Draw(t, "back"))
	}
	for _, rule := range Rules[:2] {
		switch rapid.IntRange(0, 5).Draw(t, "rest of "+rule) {
		case 0:
			do("HSET", "troupe:rest:"+rule, "failures", "1")
		case 1, 2:
			end := rapid.SampledFrom([]string{"1699999999.250000", "1700000020.000000"}).Draw(t, "end")
			do("HSET", "troupe:rest:"+rule, "ends", end, "~j2", end, "~j3", "1")
		}
	}
	if spoilt := rapid.SampledFrom([]string{"", "", "", "", "troupe:held", "troupe:held:one", "troupe:slots:one", "troupe:limits", "troupe:rest:one"}).Draw(t, "wrong type"); spoilt != "" {
		do("DEL", spoilt)
		do("LPUSH", spoilt, "x")
	}
	return writes
}

var (
	jids = rapid.SampledFrom([]string{"j1", "j2", "j3"})
	held = rapid.SampledFrom([]string{
		"1 [\"queue:a\",\"a\",\"j1\",\"one\"]\nx", "2 [\"queue:a\",\"\",\"j2\",\"one\",\"rate:x\"]\ny", "3 [\"queue:b\",\"b\",\"j3\",\"Old\",\"one\"]\n\x00\xff\r\n",
		"4 [\"queue:b\",\"b\",\"j1\",\"none\"]\nz", "no header", "5 [1]\nx",
	})
)
