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

// fits reports whether the fault is for this command.
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

// Effect is what a Fault does to one command: Call and Delay, then at most one of
// Refuse, Twice, Cut and Mute.
type Effect struct {
	// Call is called before the command is handed on, which waits for it: to crash
	// an actor, or to kill a process, exactly there.
	Call func()

	Delay time.Duration // the command is handed on so much later

	// Refuse answers with this error of Redis, such as "LOADING Redis is loading
	// the dataset in memory", and the command is not applied. A MULTI of which anything
	// is refused ends with EXECABORT and applies nothing, as on a real server.
	Refuse string

	// Twice applies the command two times and returns the second reply, as a client
	// does that repeats a command whose first reply was lost. Between MULTI and EXEC
	// it does nothing.
	Twice bool

	Cut bool // the connection ends

	// Mute lets the command, and all that follows on its connection, vanish: not
	// applied, not answered, nothing closed. A half-open connection.
	Mute bool

	// Applied lets Redis apply the command before Cut or Mute; its reply, and all
	// others of its connection, never come. The client cannot know which of the two
	// it was.
	Applied bool
}

// problem is what is wrong with the effect; "" for nothing.
func (e Effect) problem() string {
	ends := 0
	for _, set := range []bool{e.Refuse != "", e.Twice, e.Cut, e.Mute} {
		if set {
			ends++
		}
	}
	switch {
	case ends > 1:
		return "more than one of Refuse, Twice, Cut and Mute"
	case e.Applied && !e.Cut && !e.Mute:
		return "Applied without Cut or Mute"
	case ends == 0 && e.Call == nil && e.Delay == 0:
		return "empty, expected an effect such as chaos.Effect{Cut: true}"
	}
	return ""
}

// exchange is what becomes of one command.
func (e Effect) exchange() exchange {
	x := exchange{before: e.Call, wait: e.Delay, copies: 1, reply: []replyMode{replyPass}, text: e.Refuse}
	switch {
	case e.Refuse != "":
		x.copies, x.reply = 0, []replyMode{replyForged}
	case e.Twice:
		x.copies, x.reply = 2, []replyMode{replySkip, replyPass}
	case e.Cut && e.Applied:
		x.reply[0] = replyCut
	case e.Mute && e.Applied:
		x.reply[0] = replyMute
	}
	x.cut, x.mute = e.Cut && !e.Applied, e.Mute && !e.Applied
	return x
}

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
