package sched

import (
	"context"
	"errors"
	"time"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/words"
)

const (
	// A batch holds about this many bytes at most, so that a set of huge jobs
	// neither fills our memory nor stops Redis for long.
	maxPage = 1 << 20

	// A link that carries an answer at all carries so many bytes.
	minPage = 64 << 10

	// So often in a row a member that comes alone is asked for in vain.
	maxTries = 3
)

// page is how much one batch asks for. It is halved after a batch that was lost on
// its way and grows by an eighth with each that arrives.
type page struct {
	count, bytes int
	whole        int // count of a whole one

	lost    bool // the last batch was, and it may have been too large
	suspect int  // length of the member that was lost alone
	tries   int  // how often
}

func (p *page) grow() {
	p.count, p.bytes = min(p.whole, p.count+p.count/8+1), min(maxPage, p.bytes+p.bytes/8)
	p.suspect, p.tries = 0, 0
}

// shrink is called when a batch was lost and a small answer came after it. size is the length of the
// first member; atTop tells whether the batch took the newest. shrink reports whether that member is too
// large for the link: it was lost alone, several times, and each time the link worked.
func (p *page) shrink(size int, atTop bool) (tooLarge bool) {
	alone := size > p.bytes || p.count == 1
	p.lost = false
	p.count, p.bytes = max(1, p.count/2), max(minPage, p.bytes/2)
	if atTop || !alone || size < minPage {
		return false
	}
	p.count = 1
	if p.suspect != size {
		p.suspect, p.tries = size, 0
	}
	p.tries++
	return p.tries >= maxTries
}

// unreadTime is how long a member waits on a cluster that is too large for the link.
const unreadTime = time.Hour

// askSmall is called when a batch was lost on its way. It finds out whether Redis was
// away or the batch was too large. A single member that is lost again and again is
// moved away unread, so that it does not stop the members behind it.
func (s *Scheduler) askSmall(ctx context.Context, cur *cursor, a ask) error {
	atTop := a.newest
	a.count, a.newest, a.as = 0, false, ""
	got, err := s.due(ctx, a)
	if err != nil {
		return err // Redis is away: that tells nothing about the batch
	}
	cur.newest = false
	f := got.sets[0]
	if f.err == nil && cur.page.shrink(f.size, atTop) {
		return s.unread(ctx, a, f.size)
	}
	return f.err
}

// unread takes the first due member out of the way, without reading it.
func (s *Scheduler) unread(ctx context.Context, a ask, size int) error {
	ctx, cancel := context.WithTimeout(ctx, promoteTimeout)
	defer cancel()
	set := string(a.sets[0])
	names := []string{set, keys.Queues, keys.Dead}
	if redisconn.OnCluster(s.cfg.Redis) {
		names = []string{set, keys.Moving(set)}
	}
	death := s.death(time.Now())
	reply, err := unreadScript.Run(ctx, s.cfg.Redis, names, a.from[0], a.skip, size, unreadTime.Milliseconds(), death.Score, death.Trim.Text()).StringSlice()
	if err == nil && len(reply) != 3 {
		err = errors.New("unread.lua: unexpected reply")
	}
	if err != nil || reply[0] == "" {
		return err
	}
	s.cfg.Logger.Error().Str("set", set).Str("key", words.Text(reply[0])).Str("class", words.Text(reply[1])).Str("jid", words.Text(reply[2])).Int("bytes", size).
		Msg("an entry is larger than the link to Redis carries in time: moved inside of Redis as it is, without client middleware")
	return nil
}
