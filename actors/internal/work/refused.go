package work

import (
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/words"
)

// tooLarge is how often a call with one move must go unanswered, while Redis answers others, until
// the move counts as larger than what Redis, or a proxy in front of it, takes.
const tooLarge = 3

// leastLarge is the fewest bytes of a move that may be larger than what is taken: no server or proxy
// has a limit as low.
const leastLarge = 64 << 10

// narrow deals with the end of a call. One that was not answered may have been too large, by one of
// its moves: the next one carries half as many, and in the end the move that cannot be sent goes
// another way. It is the flush loop's.
func (s *Settler) narrow(moves []*Move, err error) error {
	if err == nil {
		if s.most *= 2; s.most > asyncMax {
			s.most = 0
		}
		return nil
	}
	if errchain.Has[redis.Error](err) {
		return err
	}
	if s.most = max(1, len(moves)/2); len(moves) > 1 {
		return err
	}
	m := moves[0]
	ctx, cancel := s.env.Call()
	defer cancel()
	if !s.host.Reached(ctx) {
		m.unanswered = 0
		return err
	}
	if m.unanswered++; m.unanswered < tooLarge {
		return err
	}
	m.unanswered = 0
	size := len(m.Unit.Payload) + len(m.Payload)
	tell := func(text string) {
		supervised.Tell(func() {
			s.env.Log.Error().Str("actor", s.host.Path()).Str("queue", words.Text(m.Unit.Queue)).Int("bytes", size).
				Str("to", m.To.String()).Err(err).Msg(text)
		})
	}
	if m.Payload == nil || size < leastLarge { // it is not its size
		tell("a job cannot be settled: redis does not answer the call, and answers others; it is tried again")
		s.postpone(m)
		return nil
	}
	tell("the outcome of a job is larger than what redis takes: the job goes into the dead set as it was fetched")
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Then != nil {
		s.async.bytes.Add(int64(-len(m.Payload)))
	}
	m.To, m.Payload, m.Score, m.large = fetch.ToDead, nil, float64(time.Now().UnixMicro())/1e6, true
	return nil
}

// refusedTime is the wait between two tries with a move that Redis refuses.
const refusedTime = time.Second

// postpone takes a refused move off the list for a while. Its job's slot need not
// wait for it.
func (s *Settler) postpone(m *Move) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.moves = slices.DeleteFunc(s.moves, func(o *Move) bool { return o == m })
	if m.Refused != nil {
		select {
		case <-m.Refused:
		default:
			close(m.Refused)
		}
	}
	s.refused = append(s.refused, m)
	if len(s.refused) == 1 {
		time.AfterFunc(refusedTime, s.tryRefused)
	}
}

func (s *Settler) tryRefused() {
	s.mu.Lock()
	s.moves = append(s.moves, s.refused...)
	s.refused = nil
	s.mu.Unlock()
	s.kick()
}
