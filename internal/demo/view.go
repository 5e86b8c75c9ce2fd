package demo

import (
	"strings"
	"time"

	"github.com/rs/zerolog"
)

const (
	sparkWidth  = 30
	maxNoteRows = 10
)

// view lays a snapshot out in at most height rows: figures, the tree, and below
// it the latest notes.
func view(s snapshot, notes []note, height int) []row {
	rows := head(s)
	rest := height - len(rows) - 1
	if rest < 1 {
		return rows[:min(len(rows), height)]
	}
	// The notes have a fixed share, so that one more does not move the tree, and
	// whatever the tree leaves.
	share := 0
	if rest >= 8 {
		share = min(max(2, rest/4), maxNoteRows)
		share = min(max(share, rest-len(s.Tree)-1), maxNoteRows)
		rest -= share + 1
	}
	rows = append(rows, nil)
	rows = append(rows, treeRows(s.Tree, s.Now, rest)...)
	if share == 0 || len(notes) == 0 {
		return rows
	}
	rows = append(rows, nil)
	for _, n := range notes[max(0, len(notes)-share):] {
		rows = append(rows, n.row())
	}
	return rows
}

// head is the figures.
func head(s snapshot) []row {
	var title, jobs, redis, rate, start, late row
	title.add(bold, "troupe demo")
	title.add(plain, "  ")
	switch {
	case s.Phase == phaseQuiet:
		title.add(yellow, "quiet: running jobs end, no new ones begin; Ctrl-C stops")
	case s.Phase == phaseStopping && s.Wait > 0:
		title.addf(yellow, "stopping: waiting up to %s for running jobs", short(s.Wait.Round(100*time.Millisecond)))
	case s.Phase == phaseStopping:
		title.add(yellow, "stopping: requeueing and cancelling what still runs")
	case s.Stats.RedisAway:
		title.add(red, "redis is away")
	default:
		title.add(green, "running")
		if s.Left > 0 {
			title.addf(dim, ", %s left", s.Left.Round(time.Second))
		}
		title.add(dim, "; Ctrl-C stops")
	}
	title.addf(dim, "  up %s  %s", s.Up.Round(time.Second), s.Place)

	figure(&jobs, "jobs", "pushed", grouped(s.Pushed), plain)
	figure(&jobs, "", "processed", grouped(s.Stats.Processed), plain)
	figure(&jobs, "", "failed", grouped(s.Stats.Failed), alarm(s.Stats.Failed > 0, yellow))
	figure(&jobs, "", "retried", grouped(s.Retried), plain)
	if s.Unpushed > 0 {
		figure(&jobs, "", "not pushed", grouped(s.Unpushed), red)
	}

	n := func(v int64) string {
		if !s.Counted {
			return "?"
		}
		return grouped(v)
	}
	figure(&redis, "in redis", "enqueued", n(s.Counts.Enqueued), alarm(s.Full, yellow))
	figure(&redis, "", "scheduled", n(s.Counts.Scheduled), plain)
	figure(&redis, "", "retries", n(s.Counts.Retries), plain)
	figure(&redis, "", "dead", n(s.Counts.Dead), alarm(s.Counts.Dead > 0, yellow))
	if s.Full {
		redis.add(yellow, "the producer waits")
	}

	label(&rate, "rate")
	rate.addf(bold, "%.1f/s", s.DoneRate)
	rate.addf(dim, " processed  ")
	rate.addf(plain, "%.1f/s", s.PushRate)
	rate.add(dim, " pushed  ")
	rate.addf(plain, "%d of %d", s.Stats.Busy, s.Slots)
	rate.add(dim, " busy  ")
	rate.add(cyan, spark(s.History, sparkWidth))

	label(&start, "latency")
	quantiles(&start, "push to start", s.Start)
	label(&late, "")
	quantiles(&late, "due to start ", s.Late)
	return []row{title, jobs, redis, rate, start, late}
}

// label begins a row of figures.
func label(r *row, name string) { r.add(dim, name+strings.Repeat(" ", max(0, 10-len(name)))) }

// figure adds "name value", after a label if there is one.
func figure(r *row, first, name, value string, st style) {
	if first != "" {
		label(r, first)
	}
	r.add(dim, name+" ")
	r.add(st, value)
	r.add(plain, "  ")
}

func quantiles(r *row, what string, p percentiles) {
	r.add(plain, what+"  ")
	if p.N == 0 {
		r.add(dim, "nothing in the last 10s")
		return
	}
	r.add(dim, "p50 ")
	r.addf(bold, "%-6s", short(p.P50))
	r.add(dim, "  p99 ")
	r.addf(bold, "%-6s", short(p.P99))
	r.addf(dim, "  of %s in the last 10s", grouped(p.N))
}

func alarm(on bool, st style) style {
	if on {
		return st
	}
	return plain
}

// row draws a note.
func (n note) row() row {
	var r row
	r.add(dim, n.at.Format("15:04:05 "))
	st := plain
	switch {
	case n.level >= zerolog.ErrorLevel:
		st = red
	case n.level == zerolog.WarnLevel:
		st = yellow
	}
	r.add(st, n.text)
	if n.count > 1 {
		r.addf(dim, "  ×%s", grouped(n.count))
	}
	return r
}
