package web

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/words"
	"github.com/troupehq/troupe/web/internal/draw"
)

// past is what Redis knows of the time when nobody looked. Nobody changes it.
type past struct {
	At    time.Time
	Days  []inspect.DayStats // the newest first
	Marks []draw.Mark        // of deploys, the oldest first
}

const (
	pastEvery  = 10 * time.Second
	daysShown  = 14
	labelShown = 100 // bytes of the label of a deploy
)

// readPast is the past as it is now, or that of an old snapshot while it is fresh.
func (s *sampler) readPast(ctx context.Context, old *snapshot) (*past, error) {
	now := time.Now()
	if old != nil && old.Past != nil && now.Sub(old.Past.At) < pastEvery {
		return old.Past, nil
	}
	p := &past{At: now}
	var err error
	if p.Days, err = s.fleet.Inspector.History(ctx, daysShown, now); err != nil {
		return nil, err
	}
	marks, err := s.fleet.Inspector.Marks(ctx, now.AddDate(0, 0, -daysShown), now)
	if err != nil && !redis.HasErrorPrefix(err, "NOPERM") {
		return nil, err
	}
	for _, m := range marks {
		p.Marks = append(p.Marks, draw.Mark{At: m.At, Label: words.Short(m.Label, labelShown)})
	}
	return p, nil
}

// days is the chart of the jobs that ran each day, whether anybody looked or not. It is empty if none ran.
func (p *past) days() draw.Chart {
	c := draw.Chart{Title: "Jobs run", Unit: "a day (UTC)", Bars: true, Rows: daysShown, From: p.At.AddDate(0, 0, -daysShown), To: p.At}
	run, failed := draw.Series{Name: "run"}, draw.Series{Name: "failed"}
	ran := false
	for _, d := range slices.Backward(p.Days) {
		ran = ran || d.Processed > 0 || d.Failed > 0
		run.Points = append(run.Points, draw.Point{At: d.Date, Value: float64(d.Processed)})
		failed.Points = append(failed.Points, draw.Point{At: d.Date, Value: float64(d.Failed)})
	}
	if !ran {
		return c
	}
	c.From, c.Series = run.Points[0].At, []draw.Series{run, failed}
	return c.Mark(p.Marks)
}
