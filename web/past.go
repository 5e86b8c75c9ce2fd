package web

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/words"
	"github.com/troupehq/troupe/web/internal/draw"
)

// past is what Redis knows of the time before somebody opened a page. It is never modified.
type past struct {
	At    time.Time
	Days  []inspect.DayStats // the newest first
	Marks []draw.Mark        // of deploys, the oldest first

	Depths []beat.Depths // of the last 24 hours, the oldest first
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
	if p.Depths, err = s.readDepths(ctx, old, now); err != nil && !redis.HasErrorPrefix(err, "NOPERM") && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return nil, err
	}
	return p, nil
}

// readDepths reads the samples that are newer than those of an old snapshot.
func (s *sampler) readDepths(ctx context.Context, old *snapshot, now time.Time) (all []beat.Depths, err error) {
	oldest, missing := now.Add(-beat.DepthsKept*beat.DepthsEvery), beat.DepthsKept
	if old != nil && old.Past != nil && len(old.Past.Depths) > 0 {
		all = slices.Clip(old.Past.Depths) // the old snapshot keeps its own
		missing = min(missing, int(now.Sub(all[len(all)-1].At)/beat.DepthsEvery)+2)
	}
	last, err := beat.LastDepths(ctx, s.fleet.Redis, max(missing, 1))
	if err != nil {
		return all, err
	}
	for _, one := range slices.Backward(last) {
		if len(all) == 0 || one.At.After(all[len(all)-1].At) {
			all = append(all, one)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(one beat.Depths) bool { return one.At.Before(oldest) }), nil
}

// waiting is the chart of the jobs that waited, whether anybody looked or not, in a queue or, without
// a name, in all. It is empty if a process of troupe has not led for two minutes.
func (p *past) waiting(queue string) draw.Chart {
	return p.chart("Jobs waiting", "jobs", "waiting", func(s beat.Depths) float64 {
		if queue == "" {
			return float64(s.Jobs)
		}
		return float64(s.Queues[queue].Jobs)
	})
}

// oldest is the chart of how long the oldest job of a queue had waited.
func (p *past) oldest(queue string) draw.Chart {
	return p.chart("Oldest job", "seconds", "waited", func(s beat.Depths) float64 { return s.Queues[queue].Oldest })
}

func (p *past) chart(title, unit, series string, value func(beat.Depths) float64) draw.Chart {
	c := draw.Chart{Title: title, Unit: unit, To: p.At, From: p.At, Gap: 3 * beat.DepthsEvery}
	if len(p.Depths) < 2 {
		return c
	}
	points := make([]draw.Point, len(p.Depths))
	for i, s := range p.Depths {
		points[i] = draw.Point{At: s.At, Value: value(s)}
	}
	c.From, c.Series = points[0].At, []draw.Series{{Name: series, Points: points}}
	return c.Mark(p.Marks)
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
