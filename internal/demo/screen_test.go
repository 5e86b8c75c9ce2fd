package demo

import (
	"errors"
	"strings"
	"testing"
)

func TestScreenWritesOnlyWhatChanged(t *testing.T) {
	var out buffer
	width, height := 100, 40
	s := newScreen(&out, func() (int, int, error) { return width, height, nil }, false)
	written := func(shot snapshot) string {
		before := len(out.String())
		s.show(shot)
		return out.String()[before:]
	}
	s.open()
	shot := picture(5)
	if first := written(shot); !strings.Contains(first, "\x1b[2J") || strings.Count(first, "\x1b[K") != len(view(shot, nil, height)) {
		t.Errorf("the first frame is not whole: %q", first)
	}
	// the first line always: keys that the user types are echoed there
	if same := written(shot); strings.Count(same, "\x1b[K") != 1 || !strings.Contains(same, "\x1b[1;1H") {
		t.Errorf("a frame without changes: %q", same)
	}
	shot.Pushed++
	if next := written(shot); strings.Count(next, "\x1b[K") != 2 || !strings.Contains(next, "\x1b[2;1H") || strings.Contains(next, "\x1b[2J") {
		t.Errorf("a frame with one change: %q", next)
	}
	shot.Tree = shot.Tree[:len(shot.Tree)-1]
	if shorter := written(shot); !strings.Contains(shorter, "H\x1b[J") {
		t.Errorf("the rest of a longer frame is not erased: %q", shorter)
	}
	width = 90
	if resized := written(shot); !strings.Contains(resized, "\x1b[2J") {
		t.Errorf("a frame after a resize: %q", resized)
	}
	shot.Now = shot.Now.Add(repaintEvery)
	if healed := written(shot); strings.Count(healed, "\x1b[K") < 10 || strings.Contains(healed, "\x1b[2J") {
		t.Errorf("a repainted frame: %q", healed)
	}
	s.close()
	if all := out.String(); !strings.HasPrefix(all, enterScreen) || !strings.HasSuffix(all, leaveScreen) {
		t.Error("the screen was not entered and left")
	}
}

func TestScreenWithoutSize(t *testing.T) {
	var out buffer
	s := newScreen(&out, func() (int, int, error) { return 0, 0, errors.New("no terminal") }, true)
	s.show(picture(50))
	if s.width != 80 || s.height != 24 || len(s.painted) > 24 {
		t.Errorf("%d lines on %dx%d", len(s.painted), s.width, s.height)
	}
}

func TestScreenShowsARun(t *testing.T) {
	var out buffer
	s, err := newShow(quickly(), newScreen(&out, func() (int, int, error) { return 120, 40, nil }, true))
	if err != nil {
		t.Fatal(err)
	}
	r := runShow(t, s)
	await(t, "the deaf job is on the screen", func() bool { return strings.Contains(out.String(), "Demo::Deaf") })
	close(r.signals) // reads as a signal
	if err := r.end(t); err != nil {
		t.Fatal(err)
	}
	all := out.String()
	shown, after, left := strings.Cut(all, leaveScreen)
	if !left || !strings.HasPrefix(shown, enterScreen) || strings.Contains(after, "\x1b") {
		t.Errorf("the screen was not left before the report: %q", after)
	}
	if !strings.Contains(after, "stopped in") {
		t.Errorf("no report: %q", after)
	}
}
