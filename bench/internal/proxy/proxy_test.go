package proxy_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe/bench/internal/proxy"
)

// A delay is latency and no rate: a hundred writes in a row arrive one delay
// later, all of them and in order, not a hundred delays later.
func TestPipeDelaysEachByteOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 50 * time.Millisecond
		in, src := net.Pipe()
		dst, out := net.Pipe()
		go proxy.Pipe(dst, src, delay)
		start := time.Now()
		var sent bytes.Buffer
		go func() {
			for i := range 100 {
				part := bytes.Repeat([]byte{byte(i)}, 1000)
				sent.Write(part)
				_, _ = in.Write(part)
			}
			_ = in.Close()
		}()
		got, err := io.ReadAll(out)
		if err != nil || !bytes.Equal(got, sent.Bytes()) {
			t.Fatalf("%d bytes arrived, %v, expected %d in order", len(got), err, sent.Len())
		}
		if took := time.Since(start); took != delay {
			t.Errorf("it took %v, expected %v", took, delay)
		}
	})
}

func TestProxyDelaysBothDirectionsAndEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	const delay = 20 * time.Millisecond
	p, err := proxy.Start(t.Context(), l.Addr().String(), delay)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	start := time.Now()
	if _, err := c.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4)
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "ping" {
		t.Fatalf("%q, %v", buf, err)
	}
	if took := time.Since(start); took < 2*delay {
		t.Errorf("there and back in %v, expected at least %v", took, 2*delay)
	}
	p.Close()
	if _, err := io.ReadFull(c, buf); err == nil {
		t.Error("the connection outlives its proxy")
	}
}
