package sim

import (
	"crypto/sha1"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/troupehq/troupe/internal/parcel"
)

var jidField = regexp.MustCompile(`"jid":"0*([0-9a-f]*)"`)

// jobOf names the job of a payload, "" if it is none.
func jobOf(payload string) string {
	m := jidField.FindStringSubmatch(payload)
	if m == nil {
		return ""
	}
	return "j" + m[1]
}

// jobsOf lists the jobs in a reply.
func jobsOf(reply []byte) string {
	var jobs []string
	for _, m := range jidField.FindAllSubmatch(reply, -1) {
		jobs = append(jobs, "j"+string(m[1]))
	}
	return strings.Join(jobs, " ")
}

// canonical is what a command says, without what differs between two replays
// (the names of processes) or two machines. w.mu is held.
func (w *world) canonical(words []string) string {
	name := strings.ToLower(words[0])
	rest := words[1:]
	switch name {
	case "eval":
		name, rest = "load "+script(words), words[3:]
	case "evalsha":
		name, rest = script(words), words[3:]
	case "hset", "hmset": // a beat: the host, its memory
		rest = rest[:1]
	case "subscribe": // again, after a cut: go-redis lists them out of a map
		rest = slices.Sorted(slices.Values(rest))
	}
	var b strings.Builder
	b.WriteString(name)
	for _, word := range rest {
		b.WriteByte(' ')
		switch job := jobOf(word); {
		case job != "":
			b.WriteString(job)
		case strings.HasPrefix(word, "[{") || strings.HasPrefix(word, "{"):
			b.WriteString("{}")
		default:
			b.WriteString(w.names.Replace(word))
		}
	}
	return b.String()
}

// init has units share parcels wherever a call takes two of one queue.
func init() { parcel.Least = 1 }

// scripts are the project's, by the hash that EVALSHA sends.
var scripts = sync.OnceValue(func() map[string]luaScript {
	all := map[string]luaScript{}
	heads := map[string][]string{ // as package fetch puts them together
		"take": {"quick", "bite", "parcel", "baton"}, "pop": {"bite"}, "cluster_take": {"bite"}, "sit": {"baton"},
		"settle": {"parcel"}, "resume": {"parcel"}, "leave": {"parcel"}, "open": {"parcel"},
	}
	for _, pattern := range []string{"../../fetch/lua/*.lua", "../../sched/*.lua", "../beat/*.lua"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			panic("no scripts at " + pattern)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				panic(err)
			}
			name := strings.TrimSuffix(filepath.Base(file), ".lua")
			for _, head := range slices.Backward(heads[name]) {
				text, err := os.ReadFile("../../fetch/" + head + ".lua")
				if err != nil {
					panic(err)
				}
				src = append(text, src...)
			}
			if strings.Contains(file, "sched") {
				name = "sched-" + name
			}
			all[hashOf(string(src))] = luaScript{name, string(src)}
		}
	}
	return all
})

type luaScript struct{ name, src string }

func hashOf(src string) string {
	sum := sha1.Sum([]byte(src))
	return hex.EncodeToString(sum[:])
}

// script names the script of an EVAL or EVALSHA, "" for any other command.
func script(words []string) string {
	switch strings.ToLower(words[0]) {
	case "eval":
		return scripts()[hashOf(words[1])].name
	case "evalsha":
		return scripts()[words[1]].name
	}
	return ""
}

// reads are the commands that move nothing.
var reads = map[string]bool{
	"ping": true, "info": true, "type": true, "client": true, "hkeys": true, "get": true, "scan": true, "hscan": true,
	"zrangebyscore": true, "zrange": true, "exists": true, "hexists": true, "smembers": true, "scard": true, "subscribe": true, "publish": true,
	"sadd": true, "multi": true, "set": true,
	"look": true, "lock": true, "renew": true, "fence": true, "register": true, "index": true, "forget": true, "recall": true, "sit": true,
	"sched-due": true, "flush": true,
}

// jobSteps are the scripts at which a fault is most likely to do harm.
var jobSteps = map[string]bool{"take": true, "settle": true, "resume": true, "putback": true, "reroute": true, "fence": true, "sched-move": true, "sched-unread": true}

func isRead(words []string) bool {
	if s := script(words); s != "" {
		return reads[s]
	}
	return reads[strings.ToLower(words[0])]
}
