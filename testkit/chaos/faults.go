package chaos

import (
	"slices"
	"strings"
	"time"
)

// Fault says which commands something happens to, and what. Commands that all of
// Command, Mentions and Where pick fit.
type Fault struct {
	Command  string                    // its name in any case; "": every command
	Mentions string                    // a part of an argument, such as a key or a jid; "": any
	Where    func(words []string) bool // on the name and the arguments; nil: any
	Skip     int                       // so many that fit pass before the first that does not
	Times    int                       // how often; 0: always
	Do       Effect

	proxy      *Proxy
	seen, hits int
}

// fits tells whether the fault is for this command.
func (f *Fault) fits(words []string) bool {
	return (f.Command == "" || strings.EqualFold(words[0], f.Command)) &&
		(f.Mentions == "" || slices.ContainsFunc(words[1:], func(arg string) bool { return strings.Contains(arg, f.Mentions) })) &&
		(f.Where == nil || f.Where(words))
}

// Hits is how often a fault that was added has happened.
func (f *Fault) Hits() int {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	return f.hits
}

// Remove ends a fault that was added.
func (f *Fault) Remove() {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	f.proxy.faults = slices.DeleteFunc(f.proxy.faults, func(other *Fault) bool { return other == f })
}

// Effect is what a Fault does to one command. Those below are all there are.
type Effect func(x *exchange)

// exchange is one command on its way, and what becomes of it.
type exchange struct {
	before func()        // called before the command is handed on
	wait   time.Duration // before it is handed on
	copies int           // how often it is handed on
	reply  []replyMode   // what becomes of each reply; for an error of our own the only one
	text   string        // of that error
	cut    bool          // the connection ends instead of handing it on
	mute   bool          // from here on the client hears nothing, and is not heard
}

// replyMode is what becomes of one reply.
type replyMode int

const (
	replyPass   replyMode = iota
	replySkip             // the client never sees it
	replyCut              // the connection ends instead
	replyMute             // the client waits for it, and for all others, for ever
	replyForged           // an error of our own, without the server
)

// CutBefore ends the connection, and the command is not applied.
func CutBefore(x *exchange) { x.cut = true }

// CutAfter lets Redis apply the command and ends the connection before the reply:
// the client cannot know which of the two it was.
func CutAfter(x *exchange) { x.reply[0] = replyCut }

// Twice applies the command two times and returns the second reply, as a client
// does that repeats a command whose first reply was lost.
func Twice(x *exchange) { x.copies, x.reply = 2, []replyMode{replySkip, replyPass} }

// Swallow lets the command, and all that follows on its connection, vanish: not
// applied, not answered, nothing closed. A half-open connection.
func Swallow(x *exchange) { x.mute = true }

// MuteReply lets Redis apply the command; its reply, and all others of its
// connection, never come.
func MuteReply(x *exchange) { x.reply[0] = replyMute }

// Delay hands the command on after d.
func Delay(d time.Duration) Effect { return func(x *exchange) { x.wait = d } }

// Refuse answers with an error of Redis, "LOADING Redis is loading the dataset in
// memory", and does not apply the command.
func Refuse(text string) Effect {
	return func(x *exchange) { x.copies, x.reply, x.text = 0, []replyMode{replyForged}, text }
}

// Call calls f before the command is applied, which waits for it: to crash an
// actor, or to kill a process, exactly there.
func Call(f func()) Effect { return func(x *exchange) { x.before = f } }
