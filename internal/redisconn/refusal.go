package redisconn

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Refusal is why Redis does not do something, by its own word: it is there, and answers.
type Refusal struct {
	Code string // the first word of its reply, such as OOM
	Text string // what is so, of Redis: "it is full …"
	Do   string // what to do about that
}

// refusals are those that tell more than that one command was wrong. An entry of replyFaults has
// one here.
var refusals = map[string]Refusal{
	"OOM":        {Text: "it is full (maxmemory), and takes nothing new", Do: "Give it more memory, or delete what nobody needs: troupe queues clear NAME, troupe jobs delete dead --all."},
	"MISCONF":    {Text: "it cannot save to its disk, and takes no writes until it can", Do: "See its log: the disk may be full."},
	"READONLY":   {Text: "it is a replica, and takes no writes", Do: "Use the address of the master, or Sentinel."},
	"NOREPLICAS": {Text: "it has fewer replicas than min-replicas-to-write, and takes no writes", Do: "See why its replicas are away."},
	"NOPERM":     {Text: "its user may not do this", Do: "Grant the right: docs/scaling.md has the rules."},

	"NOAUTH":    {Text: "it wants a password", Do: "Put user and password into the URL."},
	"WRONGPASS": {Text: "the user or the password is wrong", Do: "Put the right ones into the URL."},
	"DENIED":    {Text: "it is in protected mode, and answers its own machine only", Do: "Set a password, or bind the address."},

	"LOADING":     {Text: "it is reading its data from its disk", Do: "Wait until it has."},
	"BUSY":        {Text: "a script has been running for too long", Do: "Wait, or end it with SCRIPT KILL."},
	"MASTERDOWN":  {Text: "it is a replica that has lost its master", Do: "See whether the master runs."},
	"UNBLOCKED":   {Text: "it has just become a replica", Do: "Try again."},
	"CLUSTERDOWN": {Text: "a part of the cluster is down", Do: "See CLUSTER INFO and CLUSTER NODES."},
	"TRYAGAIN":    {Text: "the slot is moving to another node", Do: "Try again."},
	"MOVED":       {Text: "the slot has moved to another node", Do: "Try again. One server of a cluster alone is not enough: give it as redis+cluster://."},
	"ASK":         {Text: "the slot is moving to another node", Do: "Try again. One server of a cluster alone is not enough: give it as redis+cluster://."},

	"EXECABORT": {Text: "it has refused a part of what is to be done in one step", Do: "Let it say why: troupe doctor."},
	maxClients:  {Text: "it takes no more connections (maxclients)", Do: "Close some, or raise maxclients."},
}

// maxClients is the code of the one reply of that kind that begins with ERR.
const maxClients = "MAXCLIENTS"

// Refused reports whether Redis has refused something, and why. It is false if nobody has answered,
// and for a reply that one command alone is wrong. This is the one place that tells the two apart
// for people: who is refused must not read that Redis is away.
func Refused(err error) (Refusal, bool) {
	reply, ok := errors.AsType[redis.Error](err)
	if !ok || errors.Is(err, redis.Nil) {
		return Refusal{}, false
	}
	code := replyCode(reply.Error())
	r, ok := refusals[code]
	r.Code = code
	return r, ok
}

// Reason is the error of a MULTI, with the reason in place of "EXECABORT Transaction discarded because of
// previous errors": that of the command which was refused.
func Reason(cmds []redis.Cmder, err error) error {
	if err != nil && redis.HasErrorPrefix(err, "EXECABORT") {
		for _, cmd := range cmds {
			if e := cmd.Err(); e != nil && !redis.HasErrorPrefix(e, "EXECABORT") {
				return e
			}
		}
	}
	return err
}

// Reply is an error reply of Redis that has come as a text, in the answer of a script say.
type Reply string

func (r Reply) Error() string { return string(r) }

// RedisError makes it one for go-redis.
func (Reply) RedisError() {}

// replyCode is the word of an error reply that tells what it is about.
func replyCode(text string) string {
	code, rest, _ := strings.Cut(text, " ")
	switch code {
	case "EXECABORT":
		// "Transaction discarded because of: OOM …" has the reason; "… because of
		// previous errors" has not.
		if _, cause, found := strings.Cut(rest, "because of: "); found {
			return replyCode(cause)
		}
	case "ERR":
		// Redis 6.2 wraps what a script's command answered:
		// "ERR Error running script (call to f_…): @user_script:1: -OOM …".
		if strings.HasPrefix(rest, "Error running script") {
			if i := strings.LastIndex(rest, ": -"); i >= 0 {
				return replyCode(rest[i+len(": -"):])
			}
		}
		for _, t := range errTexts {
			if strings.HasPrefix(rest, t.prefix) {
				return t.code
			}
		}
		next, _, _ := strings.Cut(rest, " ") // KVRocks says "ERR LOADING …"
		if _, known := replyFaults[next]; known {
			return next
		}
	}
	return code
}
