package sched

import (
	_ "embed"

	"github.com/troupehq/troupe/internal/script"
)

var (
	//go:embed due.lua
	dueSource string
	//go:embed move.lua
	moveSource string
	//go:embed unread.lua
	unreadSource string

	dueScript    = script.New("sched.due", dueSource)
	moveScript   = script.New("sched.move", moveSource)
	unreadScript = script.New("sched.unread", unreadSource)
)
