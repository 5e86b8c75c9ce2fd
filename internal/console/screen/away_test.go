package screen_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/troupehq/troupe/internal/console/screen"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/testkit"
)

func init() { logging.Disable() } // of the driver: servers are killed here on purpose

// While Redis is away the screen says so and since when, keeps what it has seen and obeys its keys.
// It comes back by itself.
func TestRedisAway(t *testing.T) {
	server := testkit.NewServer(t, "--appendonly", "yes", "--appendfsync", "always")
	ruby(t, server.URL(0))
	rdb, err := redisconn.FromURL(server.URL(0), redisconn.Need{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rdb.Close() }()
	s := show(t, 40, 12, screen.Options{Source: source(rdb), Page: page("retry")})
	s.Await("> 1h ago")
	server.Kill()
	text := s.Await("redis is away since ")
	if !strings.Contains(text, "> 1h ago") {
		t.Errorf("what was seen is gone:\n%s", text)
	}
	s.Type("j")
	s.Await("> in 1h")
	s.Type("Dy") // an act says what is wrong, too
	s.Await("delete an entry: dial tcp")
	s.Type("?")
	s.Await(":help")
	s.Type(":dead\r")
	s.Await(":dead")
	server.Restart()
	s.gone(t, "redis is away")
	s.Await("> ")

	server.Pause()
	s.Await("redis does not answer since ")
	s.Type("G")
	s.Await("> 2d ago")
	s.Await("redis is away since ") // its time is over
	server.Resume()
	s.gone(t, "redis is away")
	s.Type("q")
	<-s.ended
}

// A screen that is left while Redis hangs ends at once.
func TestLeavingWhileRedisHangs(t *testing.T) {
	server := testkit.NewServer(t)
	s := show(t, 80, 24, screen.Options{Source: source(server.Client), Page: page("dead")})
	s.Await("nothing here")
	server.Pause()
	s.Await("redis does not answer")
	s.Type("\x03")
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		t.Error("it did not end within a minute")
	}
	server.Resume()
}
