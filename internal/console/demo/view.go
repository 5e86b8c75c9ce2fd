package demo

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/console/screen"
	"github.com/troupehq/troupe/internal/words"
)

const (
	sparkWidth  = 30
	maxNoteRows = 10
)

// head is the figures.
func head(s snapshot) []screen.Line {
	var title, jobs, redis, rate screen.Line
	switch {
	case s.Phase == phaseQuiet:
		title.Add(screen.Yellow, "quiet: running jobs end, no new ones begin; Ctrl-C stops")
	case s.Phase == phaseStopping && s.Wait > 0:
		title.Addf(screen.Yellow, "stopping: waiting up to %s for running jobs", words.Few(s.Wait.Round(100*time.Millisecond)))
	case s.Phase == phaseStopping:
		title.Add(screen.Yellow, "stopping: requeueing and cancelling what still runs")
	case s.Stats.RedisRefuses != "":
		title.Add(screen.Red, "redis refuses: "+s.Stats.RedisRefuses)
	case s.Stats.RedisAway:
		title.Add(screen.Red, "redis is away")
	default:
		title.Add(screen.Green, "running")
		if s.Left > 0 {
			title.Addf(screen.Dim, ", %s left", s.Left.Round(time.Second))
		}
		title.Add(screen.Dim, "; Ctrl-C stops")
	}
	title.Addf(screen.Dim, "  up %s", s.Up.Round(time.Second))

	jobs.Addf(screen.Plain, "jobs      pushed %s  processed %s  failed %s  retried %s", words.Count(s.Pushed),
		words.Count(s.Stats.Processed), words.Count(s.Stats.Failed), words.Count(s.Retried))
	if s.Unpushed > 0 {
		jobs.Addf(screen.Red, "  not pushed %s", words.Count(s.Unpushed))
	}
	redis.Add(screen.Plain, "in redis  enqueued ?  scheduled ?  retries ?  dead ?")
	if n := s.Counts; s.Counted {
		redis = nil
		redis.Addf(screen.Plain, "in redis  enqueued %s  scheduled %s  retries %s  dead %s", words.Count(n.Enqueued),
			words.Count(n.Scheduled), words.Count(n.Retries), words.Count(n.Dead))
	}
	if s.Full {
		redis.Add(screen.Yellow, "  the producer waits")
	}
	rate.Addf(screen.Plain, "rate      %.1f/s processed  %.1f/s pushed  %d of %d busy  ", s.DoneRate, s.PushRate, s.Stats.Busy, s.Slots)
	rate.Add(screen.Cyan, screen.Spark(s.History, sparkWidth))
	return []screen.Line{title, jobs, redis, rate, quantiles("latency   push to start ", s.Start), quantiles("          due to start  ", s.Late), nil}
}

func quantiles(what string, p percentiles) (l screen.Line) {
	if p.N == 0 {
		l.Add(screen.Plain, what+" nothing in the last 10s")
	} else {
		l.Addf(screen.Plain, "%s p50 %-6s  p99 %-6s  of %s in the last 10s", what, words.Few(p.P50), words.Few(p.P99), words.Count(p.N))
	}
	return l
}

// line draws a note.
func (n note) line() screen.Line {
	var r screen.Line
	r.Add(screen.Dim, n.at.Format("15:04:05 "))
	st := screen.Plain
	switch {
	case n.level >= zerolog.ErrorLevel:
		st = screen.Red
	case n.level == zerolog.WarnLevel:
		st = screen.Yellow
	}
	r.Add(st, n.text)
	if n.count > 1 {
		r.Addf(screen.Dim, "  ×%s", words.Count(n.count))
	}
	return r
}
