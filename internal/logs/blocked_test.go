package logs_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/logs"
	"github.com/troupehq/troupe/internal/test/harness"
)

// pipe is what nobody reads as long as it is shut: like a pipe of the system that is full.
type pipe struct {
	sink
	shut chan struct{}
}

func (p *pipe) Write(b []byte) (int, error) {
	<-p.shut
	return p.sink.Write(b)
}

func (p *pipe) WriteLevel(_ zerolog.Level, b []byte) (int, error) { return p.Write(b) }

// blocked tests with a Writer of each kind.
func blocked(t *testing.T, test func(t *testing.T, out *pipe, w *logs.Writer)) {
	for name, of := range map[string]func(*pipe) *logs.Writer{
		"together": func(p *pipe) *logs.Writer { return logs.New(struct{ io.Writer }{p}) },
		"singly":   func(p *pipe) *logs.Writer { return logs.Singly(p) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &pipe{shut: make(chan struct{})}
				test(t, out, of(out))
			})
		})
	}
}

func TestALogThatNobodyReadsHoldsNobodyUp(t *testing.T) {
	blocked(t, func(t *testing.T, out *pipe, w *logs.Writer) {
		log := zerolog.New(w)
		began := time.Now()
		log.Error().Msg("waits to be written")
		harness.Equal(t, "the first line took", time.Since(began), 200*time.Millisecond)
		const lines = 30_000 // of some 40 bytes: 1.2 MB
		for i := range lines {
			log.Info().Int("i", i).Msg("job done")
			log.Warn().Int("i", i).Msg("job failed")
		}
		before := w.State().Dropped
		log.Error().Msg("of importance") // what is below error leaves room for it
		harness.Equal(t, "all took", time.Since(began), 200*time.Millisecond)
		s := w.State()
		if s.Blocked != 200*time.Millisecond || s.Dropped == 0 || s.Dropped >= 2*lines || s.Dropped != before {
			t.Errorf("%+v, before %d", s, before)
		}
		for range 40_000 { // 2 MB in all
			log.Error().Msg("of importance")
		}
		if more := w.State().Dropped; more == s.Dropped || time.Since(began) != 200*time.Millisecond {
			t.Errorf("%d lines are dropped after %s", more, time.Since(began))
		}
		w.Flush() // as at the end of a process
		harness.Equal(t, "with the flush it took", time.Since(began), 200*time.Millisecond)

		close(out.shut)
		synctest.Wait()
		s = w.State()
		text, _ := out.got()
		var kept, told, sum uint64
		for line := range strings.Lines(text) {
			var n uint64
			if _, err := fmt.Sscanf(line[max(0, strings.Index(line, `"lines":`)):], `"lines":%d`, &n); err == nil {
				sum, told = sum+n, told+1
				continue
			}
			kept++
		}
		if s.Blocked != 0 || sum != s.Dropped || kept+sum != 2*lines+40_000+2 {
			t.Errorf("%+v; %d lines were kept, and %d lines tell of %d", s, kept, told, sum)
		}
		if len(text) > 2<<20+maxNotice*int(told) {
			t.Errorf("%d bytes were kept", len(text))
		}
		log.Info().Msg("the last one")
		w.Flush()
		if text, _ := out.got(); !strings.HasSuffix(text, `"the last one"}`+"\n") {
			t.Errorf("the end is %s", text[len(text)-200:])
		}
	})
}

const maxNotice = 120

// A reader that is only slow loses nothing: those who log wait for it.
func TestALogThatIsReadSlowlyIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &slow{}
		w := logs.New(out)
		log := zerolog.New(w)
		for range 10_000 {
			log.Info().Str("text", strings.Repeat("x", 1000)).Msg("done")
		}
		time.Sleep(10 * time.Second)
		if s := w.State(); s.Dropped > 0 || bytes.Count(out.Bytes(), []byte("\n")) != 10_000 {
			t.Errorf("%+v, %d lines", s, bytes.Count(out.Bytes(), []byte("\n")))
		}
	})
}

type slow struct{ bytes.Buffer }

func (s *slow) Write(b []byte) (int, error) {
	time.Sleep(50 * time.Millisecond) // in a bubble
	return s.Buffer.Write(b)
}

func TestGuard(t *testing.T) {
	out := &pipe{shut: make(chan struct{})}
	close(out.shut)
	plain := zerolog.New(out).Level(zerolog.WarnLevel).With().Str("a", "b").Logger()
	if logs.Of(plain) != nil {
		t.Error("a logger without a Writer has one")
	}
	log, w := logs.Guard(plain)
	if w == nil || logs.Of(log) != w || logs.Of(log.With().Int("c", 1).Logger()) != w {
		t.Fatal("zerolog keeps what a logger writes to in another way: see writerOf")
	}
	if again, same := logs.Guard(log); same != w || logs.Of(again) != w {
		t.Error("it is guarded twice")
	}
	log.Info().Msg("no")
	log.Error().Msg("yes")
	if text, _ := out.got(); text != `{"level":"error","a":"b","message":"yes"}`+"\n" {
		t.Errorf("it has written %s", text)
	}
	for _, none := range []zerolog.Logger{{}, zerolog.Nop()} {
		if _, w := logs.Guard(none); w != nil {
			t.Error("a logger that writes nothing is guarded")
		}
	}
	var no *logs.Writer
	no.Flush()
	if no.State() != (logs.State{}) {
		t.Error("none has a state")
	}
}
