package fetch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/script"
	"github.com/troupehq/troupe/internal/test/difftest"
	"github.com/troupehq/troupe/internal/test/harness"
)

// The names that scripts are tried with: two owners, two queues, their lists.
const (
	idA = "h:1:aa#default.1"
	idB = "h:2:bb#default.1"
)

var (
	oneServer      keys.Slot
	indexA         = oneServer.Index(idA)
	common         = keys.CommonOf(idA, false)
	unread         = oneServer.Unread()
	queueA, queueB = keys.Queue("a"), keys.Queue("b")
	fields         = []string{"1.1", "2.1", "2.2", "w:a"}
)

func listOf(field string) string { return oneServer.List(idA, field) }

// call is keys and arguments of one call of a script; a key is known by its name, so that
// none is mistaken for another.
type scriptCall struct {
	names []string
	args  []any
}

func (c *scriptCall) add(args ...any) { c.args = append(c.args, args...) }

// key is the number of a key, which is added if it is new.
func (c *scriptCall) key(name string) int {
	i := slices.Index(c.names, name)
	if i < 0 {
		c.names, i = append(c.names, name), len(c.names)
	}
	return i + 1
}

func ownerCall(t *rapid.T) *scriptCall {
	c := &scriptCall{names: []string{indexA}}
	c.add(rapid.SampledFrom([]string{"1 1", "1 1", "1 1", "2 3"}).Draw(t, "mark"), rapid.IntRange(2, 4).Draw(t, "number"))
	return c
}

func drawCluster(t *rapid.T) bool { return rapid.IntRange(0, 3).Draw(t, "cluster") == 0 }

func trimText(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "2 ", " 3", "2 1"}).Draw(t, "trim")
}

// tries draw a call of each script as the code makes it.
var tries = map[string]func(t *rapid.T) *scriptCall{
	"take": func(t *rapid.T) *scriptCall {
		c := ownerCall(t)
		acked := rapid.SliceOfNDistinct(rapid.SampledFrom(fields), 0, 3, rapid.ID).Draw(t, "acked")
		wants := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b"}), 0, 2, rapid.ID).Draw(t, "wants")
		claims := rapid.IntRange(0, 4).Draw(t, "claims")
		n := rapid.SampledFrom([]int{0, 1, 3, 9, 100}).Draw(t, "n")
		c.add(n, rapid.SampledFrom([]int{1, 7, 1 << 20}).Draw(t, "bytes"), len(acked), claims, len(wants))
		if drawCluster(t) {
			c.names = append(c.names, indexA) // paused is elsewhere
		} else {
			c.names = append(c.names, keys.Paused)
		}
		for _, field := range acked {
			c.names = append(c.names, listOf(field))
			jobs := rapid.SliceOfN(payloadGen, 0, 3).Draw(t, "jobs")
			c.add(field, rapid.IntRange(0, 4).Draw(t, "length"), rapid.IntRange(0, 2).Draw(t, "oldest"), len(jobs))
			large := rapid.SliceOfN(payloadGen, 0, 2).Draw(t, "large")
			c.add(len(large))
			c.add(anys(jobs)...)
			for _, job := range large {
				c.add(nameOf([]byte(job)))
			}
		}
		for i := range claims {
			c.names = append(c.names, listOf(fmt.Sprint(c.args[1], ".", i+1)))
		}
		for _, queue := range wants {
			c.names = append(c.names, keys.Queue(queue))
			c.add(queue, rapid.SampledFrom([]string{queue, ""}).Draw(t, "paused"), rapid.IntRange(0, max(n, 1)).Draw(t, "first"))
		}
		return c
	},
	"settle": func(t *rapid.T) *scriptCall {
		c := ownerCall(t)
		cluster := drawCluster(t)
		if c.names = append(c.names, keys.Retry, keys.Schedule, keys.Dead, keys.Queues); cluster {
			c.names = []string{indexA, indexA, indexA, indexA, indexA}
		}
		for range rapid.IntRange(0, 3).Draw(t, "groups") {
			field, to := rapid.SampledFrom(fields).Draw(t, "field"), rapid.IntRange(-1, 5).Draw(t, "to")
			jobs := rapid.SliceOfN(payloadGen, 1, 3).Draw(t, "jobs")
			var where, queue any = to, ""
			known, trim, length := "", "", ""
			list := c.key(listOf(field))
			switch to {
			case -1:
				where = ""
			case 0, 4:
				queue = c.key(rapid.SampledFrom([]string{queueA, queueB}).Draw(t, "queue"))
				known = rapid.SampledFrom([]string{"", "a"}).Draw(t, "known")
			case 3:
				trim = trimText(t)
			}
			switch rapid.IntRange(0, 2).Draw(t, "named by") {
			case 0:
				length = strconv.Itoa(rapid.IntRange(0, 4).Draw(t, "length"))
			case 1:
				length, jobs = nameOf([]byte(jobs[0])), []string{""}
			}
			given := rapid.SampledFrom([]string{"", "1"}).Draw(t, "given")
			if to == 5 {
				length, given, jobs = "", "", nil
			}
			c.add(list, field, length, where, queue, known, trim, given, len(jobs))
			for _, job := range jobs {
				if given == "1" {
					job = payloadGen.Draw(t, "written")
				}
				switch to {
				case -1:
					continue
				case 1, 2, 3:
					c.add(rapid.SampledFrom([]string{"1", "2.5", "1795225036.2125871"}).Draw(t, "score"))
				}
				c.add(job)
			}
			if given == "1" || to == -1 {
				c.add(anys(jobs)...)
			}
			effects := rapid.IntRange(0, 2).Draw(t, "effects")
			c.add(effects)
			for range effects {
				texts := rapid.SliceOfN(payloadGen, 1, 3).Draw(t, "pushes")
				kind := rapid.IntRange(0, 11).Draw(t, "kind")
				if cluster && (kind == 1 || kind == 4 || kind == 8 || kind == 10) { // the schedule set is elsewhere, and there are no batches
					kind = 0
				}
				conflicts := func() any {
					if cluster {
						return ""
					}
					return c.key(keys.Conflicts)
				}
				switch kind {
				case 3:
					c.add("unique", 8, c.key("troupe:lock:1"), rapid.SampledFrom([]string{"j1", "j2"}).Draw(t, "jid"), 60000, c.key(queueA), "a", conflicts(), "", texts[0])
				case 4:
					c.add("unique", 8, c.key("troupe:lock:1"), rapid.SampledFrom([]string{"j1", "j2"}).Draw(t, "jid"), 60000, "", "", conflicts(), "2.5", texts[0])
				case 5:
					c.add("lock", 3, c.key("troupe:lock:1"), rapid.SampledFrom([]string{"j1", "j2"}).Draw(t, "jid"), rapid.SampledFrom([]int{0, 60000}).Draw(t, "ms"))
				case 6:
					c.add("gem", 5, "uniquejobs:1:LOCKED", "uniquejobs:1", "uniquejobs:1:QUEUED", "uniquejobs:digests", rapid.SampledFrom([]string{"j1", "j2"}).Draw(t, "jid"))
				case 9:
					c.add("keep", 3, c.key("troupe:result:1"), 60000, texts[0])
				case 7:
					rules := rapid.SliceOfNDistinct(rapid.SampledFrom(difftest.Rules), 1, 3, rapid.ID).Draw(t, "rules")
					jids := rapid.SliceOfN(jobGen, 1, 3).Draw(t, "jids")
					c.add("rules", 4+len(rules)+len(jids), "troupe:", rapid.SampledFrom([]string{"0", "10"}).Draw(t, "keep"), rapid.SampledFrom([]string{"", "", "j1~1"}).Draw(t, "as"), len(rules))
					c.add(anys(rules)...)
					c.add(anys(jids)...)
				case 8:
					join := difftest.JoinBatch(t)
					c.add("join", 2+len(join), rapid.SampledFrom([]string{"", "B2", "B3"}).Draw(t, "parent"), rapid.SampledFrom([]string{"open", "close"}).Draw(t, "how"))
					c.add(join...)
				case 10:
					indexes := rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 1, 3, rapid.ID).Draw(t, "indexes")
					c.add("count", 3+len(indexes), rapid.SampledFrom(difftest.Batches).Draw(t, "batch"), rapid.SampledFrom([]string{"ran", "done", "died", "wait"}).Draw(t, "event"), rapid.SampledFrom([]string{"0", "1900000000.5"}).Draw(t, "due"))
					for _, index := range indexes {
						c.add(index)
					}
				case 11:
					rules := rapid.SliceOfNDistinct(rapid.SampledFrom(difftest.Rules), 1, 3, rapid.ID).Draw(t, "rules")
					c.add("breaker", 2+2*len(rules), "troupe:", jobGen.Draw(t, "jid"))
					for _, rule := range rules {
						c.add(rule, rapid.SampledFrom([]string{"ok", "failed", "failed", "", "rest 12.5"}).Draw(t, "said"))
					}
				case 0:
					c.add("push", 2+len(texts), c.key(rapid.SampledFrom([]string{queueA, queueB}).Draw(t, "queue")), rapid.SampledFrom([]string{"", "a"}).Draw(t, "known"))
					c.add(anys(texts)...)
				case 1:
					c.add("push", 2+2*len(texts), "", "")
					for i := range texts {
						c.add("2.5", texts[i])
					}
				case 2:
					c.add("hash", 4, c.key("it-1"), 60000, "c", texts[0])
				}
			}
		}
		return c
	},
	"admit": func(t *rapid.T) *scriptCall {
		c := ownerCall(t)
		c.add("troupe:", 45)
		for range rapid.IntRange(1, 4).Draw(t, "asks") {
			rules, how := rapid.SliceOfNDistinct(rapid.SampledFrom(difftest.Rules), 1, 3, rapid.ID).Draw(t, "rules"), rapid.SampledFrom([]string{"", "", "force", "ahead", "ahead"}).Draw(t, "how")
			c.add(how, len(rules))
			c.add(anys(rules)...)
			if how == "ahead" {
				jids := rapid.SliceOfN(jobGen, 1, 3).Draw(t, "jids")
				c.add(len(jids))
				c.add(anys(jids)...)
				continue
			}
			field, job := rapid.SampledFrom(fields).Draw(t, "field"), payloadGen.Draw(t, "job")
			name := ""
			if rapid.IntRange(0, 5).Draw(t, "large") == 0 {
				name, job = nameOf([]byte(job)), ""
			}
			c.add(c.key(listOf(field)), field, name, job, jobGen.Draw(t, "jid"), rapid.SampledFrom([]string{"1", "1699999999.5"}).Draw(t, "age"),
				`["queue:a","a","j1","one"]`)
		}
		return c
	},
	"restore": func(t *rapid.T) *scriptCall {
		c, field := ownerCall(t), rapid.SampledFrom(fields).Draw(t, "field")
		c.key(listOf(field))
		c.add(field, "a 5")
		c.add(anys(rapid.SliceOfN(payloadGen, 1, 4).Draw(t, "jobs"))...)
		return c
	},
	"toolarge": func(t *rapid.T) *scriptCall {
		c, field := ownerCall(t), rapid.SampledFrom(fields).Draw(t, "field")
		c.names = append(c.names, listOf(field), queueA, keys.Dead, unread)
		at := "12.5"
		if drawCluster(t) {
			c.names[3], at = keys.ClusterUnreadable("a"), ""
		}
		c.add(field, -rapid.IntRange(1, 4).Draw(t, "index"), at)
		c.add(anys(rapid.SliceOfN(rapid.SampledFrom([]string{digestOf("x"), digestOf("y")}), 0, 2).Draw(t, "in hand"))...)
		return c
	},
	"leave": func(t *rapid.T) *scriptCall {
		c := ownerCall(t)
		c.names = append(c.names, oneServer.Registry())
		c.add(idA, 5000)
		for _, field := range rapid.Permutation(fields).Draw(t, "lists")[:rapid.IntRange(0, len(fields)).Draw(t, "n")] {
			c.names = append(c.names, listOf(field))
			c.add(rapid.SampledFrom([]string{"", "1"}).Draw(t, "more"))
		}
		return c
	},
	"begin": func(t *rapid.T) *scriptCall {
		c := &scriptCall{names: []string{indexA, oneServer.Registry()}}
		c.add(rapid.IntRange(1, 3).Draw(t, "generation"), idA, `{"v":2,"queues":["a"]}`)
		c.add([]any{"w:a", "a", "w:b", "b"}[:2*rapid.IntRange(0, 2).Draw(t, "waiters")]...)
		return c
	},
	"open": func(t *rapid.T) *scriptCall {
		return &scriptCall{[]string{indexA}, []any{rapid.IntRange(1, 2).Draw(t, "generation"), rapid.SampledFrom([]string{"w:a", "w:b"}).Draw(t, "field"), "a"}}
	},
	"renew": func(*rapid.T) *scriptCall {
		return &scriptCall{[]string{common.Lease, common.Expiries, common.Owners}, []any{idA, 5000, `{"v":2}`}}
	},
	"look": func(t *rapid.T) *scriptCall {
		return &scriptCall{[]string{common.Expiries, common.Owners}, []any{rapid.IntRange(1, 3).Draw(t, "at most"), rapid.IntRange(0, 2).Draw(t, "passed over")}}
	},
	"postpone": func(t *rapid.T) *scriptCall {
		return &scriptCall{[]string{common.Expiries}, []any{rapid.SampledFrom([]string{idA, idB}).Draw(t, "id"), 20000}}
	},
	"lock": func(t *rapid.T) *scriptCall {
		return &scriptCall{[]string{keys.Rescue}, []any{rapid.SampledFrom([]string{"1", "2"}).Draw(t, "token"), 5000}}
	},
	"fence": func(t *rapid.T) *scriptCall {
		return &scriptCall{[]string{indexA}, []any{rapid.SampledFrom([]string{"1", "2", ""}).Draw(t, "generation"), 5}}
	},
	"putback": func(t *rapid.T) *scriptCall {
		field := rapid.SampledFrom(fields).Draw(t, "field")
		closed := rapid.SampledFrom([]string{"", "5000"}).Draw(t, "closed")
		return &scriptCall{[]string{indexA, listOf(field), queueA}, []any{field, rapid.IntRange(1, 5).Draw(t, "at most"), closed}}
	},
	"name": func(t *rapid.T) *scriptCall {
		field := rapid.SampledFrom(fields).Draw(t, "field")
		c := &scriptCall{names: []string{indexA, listOf(field), oneServer.Registry()}}
		if !drawCluster(t) {
			c.names = append(c.names, common.Lease)
		}
		c.add(idA, `{"v":2,"queues":["a"]}`, field, "a", 5000)
		return c
	},
	"finish": func(*rapid.T) *scriptCall {
		return &scriptCall{[]string{indexA, oneServer.Registry()}, []any{idA, 5000}}
	},
	"reroute": func(t *rapid.T) *scriptCall {
		c := &scriptCall{names: []string{indexA, listOf("1.1"), keys.Schedule, keys.Dead, keys.Queues, keys.Recovered, keys.RecoveredLog}}
		places := []string{"", "B1:0", "B2:3", "B9:1"}
		if drawCluster(t) {
			c.names[2], c.names[3], c.names[4], places = indexA, indexA, indexA, places[:1]
		}
		c.add(5, 60000)
		for range rapid.IntRange(0, 4).Draw(t, "jobs") {
			to := rapid.SampledFrom([]string{"0", "2", "3", ""}).Draw(t, "to")
			var target any = "2.5"
			if to == "0" || to == "" {
				target = c.key(rapid.SampledFrom([]string{queueA, queueB}).Draw(t, "queue"))
			}
			c.add(payloadGen.Draw(t, "job"), to, target, rapid.SampledFrom([]string{"", "b"}).Draw(t, "known"),
				payloadGen.Draw(t, "written"), trimText(t), rapid.SampledFrom([]string{"", "j1", "j2"}).Draw(t, "counted"),
				rapid.SampledFrom([]string{"", "[1]"}).Draw(t, "recoveries"), rapid.SampledFrom(places).Draw(t, "place"))
		}
		return c
	},
	"recall": func(t *rapid.T) *scriptCall {
		c := &scriptCall{names: []string{keys.Recovered, keys.RecoveredLog}}
		c.add(rapid.SampledFrom([]int{1000, 4e12}).Draw(t, "window"), rapid.IntRange(1, 4).Draw(t, "max"))
		c.add(anys(rapid.SliceOfN(jobGen, 1, 4).Draw(t, "jobs"))...)
		return c
	},
	"forget": func(t *rapid.T) *scriptCall {
		return &scriptCall{[]string{keys.Recovered, keys.RecoveredLog}, anys(rapid.SliceOfN(jobGen, 1, 4).Draw(t, "jobs"))}
	},
	"unsuspect": func(t *rapid.T) *scriptCall {
		return &scriptCall{[]string{queueB, queueA}, []any{rapid.IntRange(1, 5).Draw(t, "at most")}}
	},
	"put": func(t *rapid.T) *scriptCall {
		c := &scriptCall{}
		switch command := rapid.SampledFrom([]string{"ZADD", "RPUSH", "SADD"}).Draw(t, "command"); command {
		case "ZADD":
			c.key(rapid.SampledFrom([]string{keys.Retry, keys.Dead}).Draw(t, "set"))
			c.add(command, payloadGen.Draw(t, "job"), "2.5", trimText(t))
		case "RPUSH":
			c.key(queueA)
			c.add(command, payloadGen.Draw(t, "job"))
		case "SADD":
			c.key(keys.Queues)
			c.add(command, "a")
		}
		return c
	},
	"pop": func(t *rapid.T) *scriptCall {
		c := &scriptCall{names: []string{keys.Paused}}
		c.add(rapid.IntRange(0, 9).Draw(t, "n"), rapid.SampledFrom([]int{1, 7, 1 << 20}).Draw(t, "bytes"))
		for _, queue := range rapid.Permutation([]string{"a", "b"}).Draw(t, "wants")[:rapid.IntRange(0, 2).Draw(t, "queues")] {
			c.names = append(c.names, keys.Queue(queue))
			c.add(queue, rapid.IntRange(0, 9).Draw(t, "first"))
		}
		return c
	},
	"store": func(t *rapid.T) *scriptCall {
		c := &scriptCall{names: []string{keys.Retry, keys.Schedule, keys.Dead, keys.Queues}}
		for range rapid.IntRange(0, 5).Draw(t, "moves") {
			to, queue := rapid.IntRange(0, 4).Draw(t, "to"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "queue")
			var target any = "5"
			if to == 0 || to == 4 {
				target = c.key(keys.Queue(queue))
			}
			c.add(to, target, queue, payloadGen.Draw(t, "payload"), trimText(t))
		}
		return c
	},
}

var (
	payloadGen = rapid.SampledFrom([]string{"", "x", "x", "y", "z", `{"class":"A","args":[1e3]}`, "\x00\xff\r\n", strings.Repeat("long", 20)})
	jobGen     = rapid.SampledFrom([]string{"j1", "j2", "j3"})
)

// sorted has a script return the fields of a hash in one order.
const sorted = `
local reply = (function()
%s
end)()
if type(reply) == 'table' and not reply.err and not reply.ok then
  local pairs, first = {}, #reply %% 2 == 0 and %d or 1
  for i = first, #reply - 1, 2 do pairs[#pairs + 1] = reply[i] .. '=' .. reply[i + 1] end
  table.sort(pairs)
  for i = first, #reply do reply[i] = nil end
  for i = 1, #pairs do reply[first - 1 + i] = pairs[i] end
end
return reply`

// TestScriptsAreTheSameOnMiniredis runs every script on random states: equal replies,
// equal keys. What holds on the embedded server then holds on Redis.
func TestScriptsAreTheSameOnMiniredis(t *testing.T) {
	pair := difftest.New(t)
	var files []string
	for _, where := range []string{"lua/*.lua", "../internal/rescue/lua/*.lua", "../internal/script/put.lua"} {
		files = append(files, harness.Must(filepath.Glob(where))(t)...)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".lua")
		if name == "enter" {
			continue // the head of others
		}
		try := tries[name]
		if try == nil {
			t.Errorf("script %s is not tried", name)
			continue
		}
		src := string(harness.Must(os.ReadFile(file))(t))
		switch name {
		case "settle", "admit":
			src = difftest.FixedClock(script.Bound + text(t, "enter") + job.RulesHead + job.BatchHead + src)
		case "take", "restore", "toolarge", "leave":
			src = script.Bound + text(t, "enter") + src
		case "store", "put":
			src = script.Bound + src
		case "reroute":
			src = difftest.FixedClock(script.Bound + job.CountHead() + src)
		case "begin": // {generation, number, fields and values}
			src = fmt.Sprintf(sorted, src, 3)
		case "fence":
			src = fmt.Sprintf(sorted, src, 1)
		}
		t.Run(name, func(t *testing.T) {
			full := fill
			if name == "settle" || name == "admit" || name == "reroute" {
				full = func(t *rapid.T) [][]any {
					return append(append(fill(t), difftest.FillLimits(t)...), difftest.FillBatches(t)...)
				}
			}
			pair.Check(t, src, full, func(t *rapid.T) ([]string, []any) {
				c := try(t)
				return c.names, c.args
			})
		})
	}
}

func text(t *testing.T, name string) string {
	t.Helper()
	src := harness.Must(lua.ReadFile("lua/" + name + ".lua"))(t)
	return string(src)
}
