package laravel

import (
	"embed"

	"github.com/troupehq/troupe/internal/script"
)

// The scripts; the head of each file documents its keys, arguments and reply.
//
//go:embed lua/*.lua
var lua embed.FS

var (
	exchangeScript = load("exchange")
	renewScript    = load("renew")
	restoreScript  = load("restore")
	pushScript     = load("push")
	againScript    = load("again")
)

func load(name string) *script.Script {
	src, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the file is part of the package
	}
	if name == "exchange" { // it writes to the set of failed jobs
		src = append([]byte(script.Bound), src...)
	}
	return script.New("laravel."+name, string(src))
}
