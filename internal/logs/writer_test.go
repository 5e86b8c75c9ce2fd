package logs_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/logs"
)

// sink counts writes.
type sink struct {
	mu     sync.Mutex
	text   bytes.Buffer
	writes int
	err    error
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.err != nil {
		return 0, s.err
	}
	return s.text.Write(p)
}

func (s *sink) got() (text string, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String(), s.writes
}

func TestALineLeavesAfterAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sink
		log := zerolog.New(logs.New(&out))
		for round := 1; round <= 3; round++ {
			log.Info().Msg("one")
			time.Sleep(60 * time.Millisecond)
			log.Info().Msg("two") // does not put the first one off
			if _, writes := out.got(); writes != round-1 {
				t.Fatalf("written at once: %d writes", writes)
			}
			time.Sleep(40 * time.Millisecond)
			synctest.Wait()
			if text, writes := out.got(); writes != round || strings.Count(text, "\n") != 2*round {
				t.Fatalf("round %d: %d writes of %q", round, writes, text)
			}
		}
	})
}

func TestAWarningTakesAlongWhatWaitsBeforeIt(t *testing.T) {
	for _, level := range []zerolog.Level{zerolog.WarnLevel, zerolog.ErrorLevel, zerolog.NoLevel} {
		synctest.Test(t, func(t *testing.T) {
			var out sink
			log := zerolog.New(logs.New(&out))
			log.Debug().Msg("a")
			log.Info().Msg("b")
			log.WithLevel(level).Msg("c")
			if level == zerolog.WarnLevel {
				synctest.Wait()
			}
			got, writes := out.got()
			if writes != 1 || strings.Count(got, "\n") != 3 || strings.Index(got, `"a"`) > strings.Index(got, `"b"`) {
				t.Errorf("%s: %d writes of %q", level, writes, got)
			}
		})
	}
}

// A storm of failures is a line at warn for each.
func TestAStormOfWarningsLeavesOnceAMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sink
		log := zerolog.New(logs.New(&out))
		lines := func() (n, writes int) {
			synctest.Wait()
			text, writes := out.got()
			return strings.Count(text, "\n"), writes
		}
		for i := range 300 { // 100 µs apart: ten in a millisecond
			log.Warn().Int("i", i).Msg("job failed")
			if n, _ := lines(); n < i+1-10 {
				t.Fatalf("%d lines have left when the %dth was written", n, i+1)
			}
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(time.Millisecond)
		if n, writes := lines(); n != 300 || writes > 31 {
			t.Errorf("%d lines left with %d writes", n, writes)
		}
		text, _ := out.got()
		next := 0
		for line := range strings.Lines(text) {
			if !strings.Contains(line, fmt.Sprintf(`"i":%d,`, next)) {
				t.Fatalf("line %d is %s", next, line)
			}
			next++
		}
		time.Sleep(2 * time.Millisecond)
		log.Warn().Msg("the next one after a rest")
		synctest.Wait()
		if n, _ := lines(); n != 301 {
			t.Error("it waits")
		}
	})
}

func TestNothingKeepsAnErrorWaiting(t *testing.T) {
	for _, level := range []zerolog.Level{zerolog.ErrorLevel, zerolog.FatalLevel, zerolog.PanicLevel, zerolog.NoLevel} {
		synctest.Test(t, func(t *testing.T) {
			var out sink
			w := logs.New(&out)
			log := zerolog.New(w)
			log.Warn().Msg("leaves")
			synctest.Wait()
			log.Warn().Msg("waits")
			log.Info().Msg("waits, too")
			if text, _ := out.got(); strings.Count(text, "\n") != 1 {
				t.Errorf("before: %q", text)
			}
			log.WithLevel(level).Msg("takes both along")
			if text, _ := out.got(); strings.Count(text, "\n") != 4 {
				t.Errorf("%s: %q", level, text)
			}
			log.Warn().Msg("waits")
			w.Flush()
			if text, _ := out.got(); strings.Count(text, "\n") != 5 {
				t.Errorf("flushed: %q", text)
			}
			time.Sleep(time.Second)
			if _, writes := out.got(); writes != 3 {
				t.Errorf("%d writes", writes)
			}
		})
	}
}

func TestManyLinesFromManyGoroutinesAreWholeAndFew(t *testing.T) {
	var out sink
	w := logs.New(&out)
	log := zerolog.New(w)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				log.Info().Int("g", g).Int("i", i).Msg("line")
			}
		})
	}
	log.Info().Str("huge", strings.Repeat("x", 300<<10)).Msg("line")
	wg.Wait()
	w.Flush()
	next := map[string]int{}
	text, writes := out.got()
	for line := range strings.Lines(text) {
		var g, i int
		if strings.Contains(line, "huge") {
			continue
		}
		if _, err := fmt.Sscanf(line, `{"level":"info","g":%d,"i":%d,"message":"line"}`, &g, &i); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		key := fmt.Sprint(g)
		if next[key] != i {
			t.Fatalf("goroutine %d: line %d, want %d", g, i, next[key])
		}
		next[key]++
	}
	if len(next) != 8 || strings.Count(text, "\n") != 16001 {
		t.Errorf("lines: %v", next)
	}
	if writes > 100 {
		t.Errorf("%d writes", writes)
	}
}

// A full disk, say, or a pipe whose reader has gone.
func TestRefusedLinesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		zerolog.ErrorHandler = func(error) { told++ }
		defer func() { zerolog.ErrorHandler = nil }()
		out := sink{err: errors.New("disk full")}
		w := logs.New(&out)
		log := zerolog.New(w)
		log.Info().Msg("a")
		log.Info().Msg("b")
		time.Sleep(time.Second)
		log.Error().Msg("c")
		if s := w.State(); s != (logs.State{Dropped: 3, Refused: true}) || told != 1 {
			t.Errorf("%+v, told %d times", s, told)
		}
		out.err = nil
		log.Info().Msg("d")
		w.Flush()
		want := `{"level":"warn","time":"2000-01-01T00:00:01Z","lines":3,"message":"3 lines of the log were dropped here"}` + "\n" + `{"level":"info","message":"d"}` + "\n"
		if text, _ := out.got(); text != want {
			t.Errorf("after: %s", text)
		}
		if s := w.State(); s != (logs.State{Dropped: 3}) {
			t.Errorf("%+v", s)
		}
	})
}

// A line of its own write is some 3 us; buffered at most a quarter of that.
func BenchmarkLine(b *testing.B) {
	for _, buffered := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "buffered"}[buffered], func(b *testing.B) {
			f, err := os.Create(filepath.Join(b.TempDir(), "log"))
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			w := logs.New(f)
			log := zerolog.New(f)
			if buffered {
				log = zerolog.New(w)
			}
			b.ReportAllocs()
			for b.Loop() {
				log.Info().Str("jid", "0123456789abcdef01234567").Str("class", "Hard").Float64("elapsed_s", 0.001).Msg("done")
			}
			w.Flush()
		})
	}
}
