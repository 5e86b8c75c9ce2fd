package fetch

import (
	"embed"
	"strings"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/script"
)

// The scripts; the head of each file documents its keys, arguments and reply.
//
//go:embed lua/*.lua
var lua embed.FS

// Scripts of an owner begin with enter.lua, those that write to a dead set with bound.lua of package script; those that know
// limits have rules.lua of package job, and settle, which knows batches, its batch.lua.
var (
	takeScript     = load("take", "enter")
	settleScript   = load("settle", "bound", "enter", "rules", "batch")
	admitScript    = load("admit", "enter", "rules")
	restoreScript  = load("restore", "enter")
	tooLargeScript = load("toolarge", "enter")
	leaveScript    = load("leave", "enter")

	popScript   = load("pop")
	storeScript = load("store", "bound")

	openScript  = load("open")
	beginScript = load("begin")
	renewScript = load("renew")
)

func load(name string, heads ...string) *script.Script {
	var all strings.Builder
	for _, file := range append(heads, name) {
		switch file {
		case "bound":
			all.WriteString(script.Bound)
			continue
		case "rules":
			all.WriteString(job.RulesHead)
			continue
		case "batch":
			all.WriteString(job.BatchHead)
			continue
		}
		src, err := lua.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic(err) // the file is part of the package
		}
		all.Write(src)
	}
	return script.New("fetch."+name, all.String())
}
