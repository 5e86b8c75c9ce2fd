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

// quickHead is the head of take: all of it in the usual case of an idle fetcher.
//
//go:embed quick.lua
var quickHead string

// baton is the head of the scripts that have a seat.
//
//go:embed baton.lua
var baton string

// biteHead is that of the scripts that take.
//
//go:embed bite.lua
var biteHead string

// parcelHead is that of the scripts that meet parcels.
//
//go:embed parcel.lua
var parcelHead string

var (
	registerScript = load("register")
	renewScript    = load("renew")
	resumeScript   = load("resume")
	restoreScript  = load("restore")
	leaveScript    = load("leave")
	placeScript    = load("place")

	lookScript    = load("look")
	fenceScript   = load("fence")
	openScript    = load("open")
	putbackScript = load("putback")
	forgetScript  = load("forget")
	reindexScript = load("reindex")
	indexScript   = load("index")
	lockScript    = load("lock")
	recallScript  = load("recall")
	rerouteScript = load("reroute")
	acquitScript  = load("acquit")
	unlapScript   = load("unlap")

	takeScript   = loadHot("take")
	sitScript    = loadHot("sit")
	settleScript = loadHot("settle")
	popScript    = loadHot("pop")
)

func source(name string) string {
	src, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the file is part of the package
	}
	switch name {
	case "take":
		return quickHead + biteHead + parcelHead + baton + string(src)
	case "pop", "cluster_take":
		return biteHead + string(src)
	case "settle", "resume", "leave", "open":
		return parcelHead + string(src)
	case "sit":
		return baton + string(src)
	}
	return string(src)
}

func load(name string) *script.Script { return script.New(name, source(name)) }

// hotScript is a script whose reply is a flat list. It is run by a command that
// reads the list as strings: half the allocations of the general reply.
type hotScript struct{ src, hash string }

func loadHot(name string) hotScript {
	src := source(name)
	return hotScript{src: src, hash: redis.NewScript(src).Hash()}
}

// processor is a client or one of its connections.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// run executes the script; args has two free places in front, for the command
// and the script, and holds the number of keys, the keys and the arguments.
func (s hotScript) run(ctx context.Context, rdb processor, args []any) ([]string, error) {
	args[0], args[1] = "evalsha", s.hash
	cmd := redis.NewStringSliceCmd(ctx, args...)
	err := rdb.Process(ctx, cmd)
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // nothing ran: safe to repeat
		args[0], args[1] = "eval", s.src
		cmd = redis.NewStringSliceCmd(ctx, args...)
		err = rdb.Process(ctx, cmd)
	}
	if err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

// runWith executes the script, and reads lists that it fills in the same round trip.
func (s hotScript) runWith(ctx context.Context, rdb *redis.Client, args []any, lists []string) (reply []string, held [][]string, err error) {
	args[0], args[1] = "evalsha", s.hash
	reply, held, err = pipelined(ctx, rdb, args, lists)
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // nothing ran: safe to repeat
		args[0], args[1] = "eval", s.src
		reply, held, err = pipelined(ctx, rdb, args, lists)
	}
	return reply, held, err
}

func pipelined(ctx context.Context, rdb *redis.Client, args []any, lists []string) ([]string, [][]string, error) {
	p := rdb.Pipeline()
	cmd := redis.NewStringSliceCmd(ctx, args...)
	_ = p.Process(ctx, cmd)
	reads := make([]*redis.StringSliceCmd, len(lists))
	for k, list := range lists {
		reads[k] = p.LRange(ctx, list, 0, -1)
	}
	if _, err := p.Exec(ctx); err != nil { // that of the script, if it has one
		return nil, nil, err
	}
	held := make([][]string, len(lists))
	for k, read := range reads {
		held[k] = read.Val()
	}
	return cmd.Val(), held, nil
}
