package actors

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/cut"
	"github.com/troupehq/troupe/internal/joblog"
)

// jobLogger is log at the level that the job's field "log_level" asks for. A
// logger that was switched off stays so.
func jobLogger(log *zerolog.Logger, p *troupe.Payload) *zerolog.Logger {
	level, ok := joblog.Level(p)
	if !ok || log.GetLevel() == zerolog.Disabled {
		return log
	}
	own := log.Level(level)
	return &own
}

// line begins a log line of the job. Arguments are never in it.
func (e *execution) line(level zerolog.Level, outcome string) *zerolog.Event {
	ev := e.log.WithLevel(level) //nolint:zerologlint // the caller sends it
	if !ev.Enabled() {
		return ev
	}
	ev = ev.Str("jid", cut.Text(e.jid)).Str("class", cut.Text(e.class)).
		Str("queue", cut.Text(e.w.unit.Queue)).Str("capsule", e.c.cfg.Name)
	return joblog.Seconds(ev, "elapsed_s", e.elapsed.Round(time.Microsecond).Seconds()).Str("outcome", outcome)
}
