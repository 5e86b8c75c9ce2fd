package fetch

import "sync/atomic"

const (
	maxPage = 1 << 20
	halves  = 10 // down to 1 KiB, or one unit
)

// page bounds the bytes of payloads that one reply brings where nobody knows how large
// they are: what lost calls took, and what a dead process had. A client reads a whole
// reply within one time-out, and asked for the same in vain would not get on for ever;
// so a page that did not come is asked for with half as many bytes, and as slowly it
// grows again. One unit it has in any case.
type page struct{ halved atomic.Int32 }

func (p *page) bytes() int { return maxPage >> p.halved.Load() }

// note tells whether the page came. An answer of Redis itself is one, too.
func (p *page) note(err error) {
	n := p.halved.Load()
	switch {
	case err == nil:
		p.halved.Store(max(0, n-1))
	case !isReply(err):
		p.halved.Store(min(halves, n+1))
	}
}
