package redisconn

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/errchain"
)

// Fault is what an error of a Redis call means to the daemon.
type Fault int

const (
	// None: no error, or redis.Nil, which is an answer.
	None Fault = iota

	// Outage: Redis is away, or cannot serve for now (network, time-outs,
	// loading, failing over, out of memory, running a long script), or a hook of
	// the client has panicked. The same call may succeed later; whether this one
	// had an effect is not known when no reply came.
	Outage

	// Auth: Redis refuses who we are or what we may do. Somebody has to change
	// something; until then it is like an outage.
	Auth

	// Command means that Redis refuses this very command (a key of a wrong type, a syntax
	// error), or that the client could not send it. Repeating it will not help.
	Command

	// Local means that the caller has cancelled the call or closed the client. It says
	// nothing about Redis.
	Local
)

// String returns the name in lower case.
func (f Fault) String() string {
	return [...]string{"none", "outage", "auth", "command", "local"}[f]
}

// Classify classifies an error of a Redis call. A context's deadline counts as an
// Outage, its cancellation as Local.
func Classify(err error) Fault {
	switch {
	case err == nil, errchain.Is(err, redis.Nil):
		return None
	case errchain.Is(err, context.Canceled), errchain.Is(err, redis.ErrClosed):
		return Local
	}
	if reply, ok := errchain.As[redis.Error](err); ok {
		return classifyReply(reply.Error())
	}
	if _, ok := errchain.As[*PanicError](err); ok || isNetwork(err) {
		return Outage
	}
	return Command
}

// Loading reports whether a server refused because it still loads its data.
func Loading(err error) bool {
	reply, ok := errchain.As[redis.Error](err)
	return ok && strings.HasPrefix(strings.TrimPrefix(reply.Error(), "ERR "), "LOADING")
}

// NotSent reports whether a call with this error had no effect for certain: Redis
// has refused it, or no connection was made. False says that nobody knows.
func NotSent(err error) bool {
	if err == nil {
		return false
	}
	if _, ok := errchain.As[redis.Error](err); ok {
		return true
	}
	if op, ok := errchain.As[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	return errchain.Is(err, redis.ErrPoolTimeout) || errchain.Is(err, redis.ErrPoolExhausted) || errchain.Is(err, redis.ErrClosed)
}

func isNetwork(err error) bool {
	for _, target := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, os.ErrDeadlineExceeded, context.DeadlineExceeded,
		redis.ErrPoolTimeout, redis.ErrPoolExhausted,
	} {
		if errchain.Is(err, target) {
			return true
		}
	}
	if _, ok := errchain.As[net.Error](err); ok { // *net.OpError, *net.DNSError, TLS alerts
		return true
	}
	text := err.Error()
	for _, part := range networkTexts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// networkTexts belong to errors that have no type to ask for: go-redis's own
// about connections, Sentinel and clusters, and TLS's.
var networkTexts = []string{
	"redis: all sentinels",
	"redis: cluster has no nodes",
	"redis: connection",
	"redis: can't parse", // not a reply: the stream is out of step
	"redis: expected ",
	"redis: invalid reply",
	"redis: timed out",
	"state transition timeout",
	"use of closed network connection",
	"tls: ",
	"x509: ",
}

// replyFaults classifies the first word of an error reply; other words are
// Command. BUSYGROUP and BUSYKEY are not BUSY.
var replyFaults = map[string]Fault{
	"LOADING":     Outage, // reading its data at start
	"READONLY":    Outage, // a replica: failover under way
	"MASTERDOWN":  Outage,
	"BUSY":        Outage, // a script runs too long
	"CLUSTERDOWN": Outage,
	"TRYAGAIN":    Outage, // a slot is moving
	"MOVED":       Outage, // the client has already asked for the new layout
	"ASK":         Outage,
	"NOREPLICAS":  Outage,
	"UNBLOCKED":   Outage, // a blocked command met a failover
	"OOM":         Outage, // maxmemory reached, nothing may be evicted
	"MISCONF":     Outage, // the disk is full, writes are refused
	"NOAUTH":      Auth,
	"WRONGPASS":   Auth,
	"NOPERM":      Auth,
	"DENIED":      Auth, // protected mode
	maxClients:    Outage,
	// a queued command was refused, for memory, as a replica, or for a disk, since none of
	// ours is unknown or too short
	"EXECABORT": Outage,
}

// errTexts are replies of the general form "ERR …", and the codes that they would have.
var errTexts = []struct{ prefix, code string }{
	{"max number of clients", maxClients},
	{"max+number+of+clients", maxClients},
	{"invalid password", "WRONGPASS"},
	{"AUTH ", "WRONGPASS"},
	{"Client sent AUTH", "WRONGPASS"},
	{"unauthenticated", "NOAUTH"},
	{"The user executing the script can't", "NOPERM"}, // Redis 7.0
	{"ACL failure in script", "NOPERM"},               // 7.2, Valkey
}

func classifyReply(text string) Fault {
	if fault, known := replyFaults[replyCode(text)]; known {
		return fault
	}
	return Command
}

// IsReply tells whether err is an answer of Redis.
func IsReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// HasPrefix tells whether err is an answer of Redis that begins with one of these.
func HasPrefix(err error, prefixes ...string) bool {
	for _, p := range prefixes {
		if err != nil && redis.HasErrorPrefix(err, p) {
			return true
		}
	}
	return false
}
