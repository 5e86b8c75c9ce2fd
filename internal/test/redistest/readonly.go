package redistest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Unwritable is a Redis that can be read and, for the user of its URL, not be written.
type Unwritable struct {
	Name  string
	Code  string // the first word of its refusals
	URL   string
	Admin *redis.Client // may all that this Redis lets anybody do
	Undo  func()        // makes it writable; nil where that is another Redis
}

// Unwritables are the ways in which a Redis can be so: it is full, it cannot save, it is a replica, and the
// user may only read. Each is a server of its own with what fill has put there.
func Unwritables(t *testing.T, fill func(rdb *redis.Client)) []Unwritable {
	t.Helper()
	filled := func(args ...string) (*Server, *redis.Client) {
		s := Start(t, args...)
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
		t.Cleanup(func() { _ = rdb.Close() })
		fill(rdb)
		return s, rdb
	}
	must := func(rdb *redis.Client, args ...any) {
		t.Helper()
		if err := rdb.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(args, err)
		}
	}

	full, fullAdmin := filled("--maxmemory-policy", "noeviction")
	must(fullAdmin, "CONFIG", "SET", "maxmemory", "1")

	unsaved, unsavedAdmin := filled("--save", "3600 1")
	if err := os.RemoveAll(unsaved.Dir); err != nil {
		t.Fatal(err)
	}
	must(unsavedAdmin, "BGSAVE")
	info(t, unsavedAdmin, "rdb_last_bgsave_status:err")

	_, master := filled()
	replica := Start(t, "--replicaof", strings.Replace(master.Options().Addr, ":", " ", 1))
	replicaAdmin := redis.NewClient(&redis.Options{Addr: replica.Addr, MaxRetries: -1})
	t.Cleanup(func() { _ = replicaAdmin.Close() })
	info(t, replicaAdmin, "master_link_status:up")

	read, readAdmin := filled()
	must(readAdmin, "ACL", "SETUSER", "reads", "on", ">pw", "~*", "+@read")

	return []Unwritable{
		{"full", "OOM", full.URL(0), fullAdmin, func() { must(fullAdmin, "CONFIG", "SET", "maxmemory", "0") }},
		{"cannot save", "MISCONF", unsaved.URL(0), unsavedAdmin, func() { must(unsavedAdmin, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no") }},
		{"replica", "READONLY", replica.URL(0), replicaAdmin, nil},
		{"a user with +@read", "NOPERM", fmt.Sprintf("redis://reads:pw@%s/0", read.Addr), readAdmin, nil},
	}
}

// info waits until INFO has a text in it.
func info(t *testing.T, rdb *redis.Client, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		all, err := rdb.Info(ctx).Result()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(all, text) {
			return
		}
		time.Sleep(10 * time.Millisecond) // no signal tells it
	}
}
