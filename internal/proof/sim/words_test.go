package sim

import (
	"crypto/sha1"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"sync"

	project "github.com/troupehq/troupe/internal/script"
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
	if script(words) == "leave" { // lists out of a map
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

// scripts are the project's, by the hash that EVALSHA sends.
var scripts = sync.OnceValue(func() map[string]luaScript {
	all := map[string]luaScript{}
	for hash, name := range project.Names() {
		src, _ := project.Source(hash)
		switch of, short, _ := strings.Cut(name, "."); of {
		case "sched", "moving":
			name = of + "-" + short
		case "fetch", "rescue", "client", "beat", "job":
			name = short
		}
		all[hash] = luaScript{name, src}
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
	"zrangebyscore": true, "zrange": true, "exists": true, "hexists": true, "smembers": true, "scard": true, "subscribe": true, "unsubscribe": true, "publish": true,
	"sadd": true, "multi": true, "set": true,
	"hget": true, "hgetall": true, "llen": true, "lrange": true, "lpos": true, "pttl": true, "zscore": true, "time": true, "sismember": true,
	"pexpire": true, "expire": true, "setnx": true,
	"look": true, "lock": true, "renew": true, "open": true, "postpone": true, "recall": true,
	"sched-due": true, "flush": true, "metrics": true, "define": true,
}

// jobSteps are the scripts and commands at which a fault is most likely to do harm.
var jobSteps = map[string]bool{
	"take": true, "settle": true, "begin": true, "restore": true, "open": true, "blmove": true, "leave": true, "lrange": true, "admit": true, "letin": true,
	"fence": true, "putback": true, "reroute": true, "finish": true, "sched-move": true, "sched-unread": true,
	"put": true, "moving-claim": true, "lpush": true, "moving-finish": true, "joinbatch": true, "countbatch": true,
}

// waySteps are those of moves between the slots of a cluster.
var waySteps = map[string]bool{"put": true, "moving-claim": true, "lpush": true, "moving-finish": true}

// stepOf names the script of a command, or the command.
func stepOf(words []string) string {
	if s := script(words); s != "" {
		return s
	}
	return strings.ToLower(words[0])
}

func isRead(words []string) bool { return reads[stepOf(words)] }
