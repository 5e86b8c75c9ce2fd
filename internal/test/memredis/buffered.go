package memredis

import (
	"net"
	"os"
	"sync"
	"time"
)

// buffered is the client's end of a pipe with room for what it has not read yet, as
// a socket has. Without it both sides wait for ever: the server for its first
// reply to be read, the client for the rest of its pipeline to be.
type buffered struct {
	net.Conn // of writes; reads go through fill

	mu       sync.Mutex
	in       []byte
	err      error // of the last read of the pipe
	deadline time.Time
	news     chan struct{} // closed at every change of the above
}

func newBuffered(c net.Conn) *buffered {
	r := &buffered{Conn: c, news: make(chan struct{})}
	go r.fill()
	return r
}

// fill reads until the pipe is closed.
func (r *buffered) fill() {
	buf := make([]byte, 4096)
	for {
		n, err := r.Conn.Read(buf)
		r.change(func() { r.in, r.err = append(r.in, buf[:n]...), err })
		if err != nil {
			return
		}
	}
}

func (r *buffered) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.news)
	r.news = make(chan struct{})
}

func (r *buffered) Read(p []byte) (int, error) {
	for {
		r.mu.Lock()
		if len(r.in) > 0 {
			defer r.mu.Unlock()
			n := copy(p, r.in)
			r.in = r.in[n:]
			return n, nil
		}
		err, news, deadline := r.err, r.news, r.deadline
		r.mu.Unlock()
		if err != nil {
			return 0, err
		}
		if err := forNews(news, deadline); err != nil {
			return 0, err
		}
	}
}

// forNews waits for news until the deadline, if there is one.
func forNews(news <-chan struct{}, deadline time.Time) error {
	var late <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-news:
		return nil
	case <-late:
		return os.ErrDeadlineExceeded
	}
}

func (r *buffered) SetReadDeadline(t time.Time) error {
	r.change(func() { r.deadline = t })
	return nil
}

func (r *buffered) SetDeadline(t time.Time) error {
	_ = r.SetReadDeadline(t)
	return r.SetWriteDeadline(t)
}
