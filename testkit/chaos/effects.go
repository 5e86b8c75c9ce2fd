package chaos

import "time"

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
