package explain

import (
	"fmt"
	"time"

	"github.com/troupehq/troupe/internal/words"
)

// Lock is the lock of a unique job.
type Lock struct {
	Key    string    `json:"lock"`
	Holder string    `json:"holder"` // jid; "" if nobody holds it
	Ends   time.Time `json:"ends,omitzero"`
}

// unique tells of the lock of a unique job: who holds it, and until when.
func (s *search) unique() error {
	r := s.x.Record
	if r == nil || r.Err != nil {
		return nil
	}
	l, err := s.i.LockOf(s.ctx, r)
	if err != nil || l == nil {
		return err
	}
	s.x.Lock = &Lock{l.Key, l.Holder, l.Ends}
	until := ""
	if !l.Ends.IsZero() {
		until = fmt.Sprintf(", until %s at the latest", words.At(l.Ends))
	}
	dead := s.x.Place == "dead"
	switch {
	case l.Holder == r.JID:
		s.because("holds_lock", "It is unique, and holds the lock %s%s. A push of a job that is the same is refused.", l.Key, until)
	case l.Holder != "" && dead:
		s.because("lock_held", "It is unique, and the job %s holds its lock %s%s. A retry is refused until then.", words.Head(l.Holder), l.Key, until)
	case l.Holder != "":
		s.because("lock_held", "It is unique, and another job, %s, holds its lock %s%s.", words.Head(l.Holder), l.Key, until)
	case dead:
		s.because("lock_free", "It is unique, and nobody holds its lock %s: a retry takes it.", l.Key)
	default:
		s.because("lock_free", "It is unique, and nobody holds its lock %s: a job that is the same can be pushed.", l.Key)
	}
	return nil
}
