package sched

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/troupehq/troupe/internal/cut"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/moving"
	"github.com/troupehq/troupe/internal/script"
)

//go:embed unread.lua
var unreadSource string

var unreadScript = script.New("unread", unreadSource)

// aside is how long a member waits on a cluster that is too large for the link.
const aside = time.Hour

// askSmall finds out, after a batch was lost on its way, whether Redis was away or
// the batch too large. If it was a single member, again and again, that one is taken
// out of the way unread: it must not stop those behind it.
func (s *Scheduler) askSmall(ctx context.Context, cur *cursor, a ask) error {
	a.count, a.newest = 0, false
	got, err := s.due(ctx, a)
	if err != nil {
		return err // Redis is away: that tells nothing about the batch
	}
	cur.newest = false
	switch f := got.sets[0]; {
	case f.err != nil:
		return f.err
	case cur.page.shrink(f.size):
		return s.unread(ctx, a, f.size)
	}
	return nil
}

// unread takes the first due member out of the way, without reading it.
func (s *Scheduler) unread(ctx context.Context, a ask, size int) error {
	ctx, cancel := context.WithTimeout(ctx, promoteTimeout)
	defer cancel()
	set := string(a.sets[0])
	names := []string{set, keys.Queues, keys.Dead}
	if moving.Needed(s.cfg.Redis) {
		names = []string{set, keys.Moving(set)}
	}
	reply, err := unreadScript.Run(ctx, s.cfg.Redis, names, append([]any{a.from[0], a.skip, size, aside.Milliseconds()}, s.death(time.Now())...)...).StringSlice()
	if err == nil && len(reply) != 3 {
		err = errors.New("unread.lua: unexpected reply")
	}
	if err != nil || reply[0] == "" {
		return err
	}
	s.cfg.Logger.Error().Str("set", set).Str("key", cut.Text(reply[0])).Str("class", cut.Text(reply[1])).Str("jid", cut.Text(reply[2])).Int("bytes", size).
		Msg("an entry is larger than the link to Redis carries in time: moved inside of Redis as it is, without client middleware")
	return nil
}
