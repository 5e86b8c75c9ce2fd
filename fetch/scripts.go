package fetch

import (
	"context"
	"embed"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/script"
)

// The scripts; the head of each file documents its keys, arguments and reply.
//
//go:embed lua/*.lua
var lua embed.FS

// Scripts of an owner begin with enter.lua.
var (
	takeScript    = ofOwner("take")
	settleScript  = ofOwner("settle")
	restoreScript = ofOwner("restore")
	asideScript   = ofOwner("aside")
	leaveScript   = ofOwner("leave")

	popScript   = flatScriptOf(source("pop"))
	placeScript = script.New("place", source("place"))

	openScript    = script.New("open", source("open"))
	beginScript   = script.New("begin", source("begin"))
	putScript     = script.New("put", source("put"))
	lookScript    = script.New("look", source("look"))
	lockScript    = script.New("lock", source("lock"))
	renewScript   = script.New("renew", source("renew"))
	fenceScript   = script.New("fence", source("fence"))
	putbackScript = script.New("putback", source("putback"))
	rerouteScript = script.New("reroute", source("reroute"))
	recallScript  = script.New("recall", source("recall"))
	forgetScript  = script.New("forget", source("forget"))
	finishScript  = script.New("finish", source("finish"))
)

func source(name string) string {
	src, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the file is part of the package
	}
	return string(src)
}

// flatScript is a script whose reply is a flat list. It is read as strings, at half
// the allocations of the general reply.
type flatScript struct{ src, hash string }

func ofOwner(name string) flatScript { return flatScriptOf(source("enter") + source(name)) }

func flatScriptOf(src string) flatScript {
	return flatScript{src: src, hash: redis.NewScript(src).Hash()}
}

// run executes the script with args, which begin with two free places for the command
// and the script, the number of keys, and the keys.
func (s flatScript) run(ctx context.Context, rdb redis.UniversalClient, args []any) ([]string, error) {
	args[0], args[1] = "evalsha", s.hash
	reply, err := flat(ctx, rdb, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // nothing ran: safe to repeat
		args[0], args[1] = "eval", s.src
		reply, err = flat(ctx, rdb, args)
	}
	return reply, err
}

func flat(ctx context.Context, rdb redis.UniversalClient, args []any) ([]string, error) {
	cmd := redis.NewStringSliceCmd(ctx, args...)
	cmd.SetFirstKeyPos(3) // a cluster client finds the node by it
	if err := rdb.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}
