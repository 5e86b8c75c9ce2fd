package rescue

import (
	"embed"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/script"
)

// The scripts; the head of each file documents its keys, arguments and reply.
//
//go:embed lua/*.lua
var lua embed.FS

var (
	lookScript      = load("look", "")
	postponeScript  = load("postpone", "")
	lockScript      = load("lock", "")
	fenceScript     = load("fence", "")
	putbackScript   = load("putback", "")
	rerouteScript   = load("reroute", script.Bound+job.CountHead())
	recallScript    = load("recall", "")
	forgetScript    = load("forget", "")
	finishScript    = load("finish", "")
	nameScript      = load("name", "")
	unsuspectScript = load("unsuspect", "")
)

func load(name, head string) *script.Script {
	src, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the file is part of the package
	}
	return script.New("rescue."+name, head+string(src))
}
