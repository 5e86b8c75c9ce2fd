package inspect_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
)

// A dead job of a chain names the job that has pushed it, and holds those behind it.
func ExampleJobRecord_Behind() {
	mr, err := miniredis.Run() // a Redis inside this process
	if err != nil {
		panic(err)
	}
	defer mr.Close()
	rdb := redis.NewClient(&redis.Options{Addr: mr.Addr()})
	defer func() { _ = rdb.Close() }()
	ctx := context.Background()
	rdb.ZAdd(ctx, "dead", redis.Z{Score: 1795225014, Member: `{"class":"Check","args":[],"queue":"low","jid":"c1","t_parent":"i1","t_next":["{\"class\":\"Publish\",\"args\":[],\"queue\":\"low\",\"jid\":\"p1\"}"]}`})

	dead, err := inspect.New(rdb).DeadSet.FindJob(ctx, "c1")
	if err != nil {
		panic(err)
	}
	behind, err := dead.Behind()
	if err != nil {
		panic(err)
	}
	fmt.Println(dead.Parent(), len(behind), behind[0].JID, behind[0].Payload.Class())
	// Output:
	// i1 1 p1 Publish
}
