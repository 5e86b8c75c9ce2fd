package sched

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
// its way and grows by an eighth with each that arrives. The zero value is a whole
// one.
type page struct {
	count, bytes int

	lost    bool // the last batch was, and it may have been too large
	atTop   bool // that one took the newest
	suspect int  // length of the member that was lost alone
	tries   int  // how often
}

func (p *page) grow(batch int) {
	p.count, p.bytes = min(batch, p.count+p.count/8+1), min(maxPage, p.bytes+p.bytes/8)
	p.suspect, p.tries = 0, 0
}

// shrink is called when a small answer has come after a batch was lost. size is the
// length of the first member. It tells whether that member is too large for the link:
// it was lost alone, again and again, and each time the link was all right.
func (p *page) shrink(size int) (tooLarge bool) {
	alone := size > p.bytes || p.count == 1
	p.lost = false
	p.count, p.bytes = max(1, p.count/2), max(minPage, p.bytes/2)
	if p.atTop || !alone || size < minPage {
		return false
	}
	p.count = 1
	if p.suspect != size {
		p.suspect, p.tries = size, 0
	}
	p.tries++
	return p.tries >= maxTries
}
