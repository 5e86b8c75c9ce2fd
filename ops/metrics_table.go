package ops

import (
	"cmp"
	"strconv"
	"unicode/utf8"

	"github.com/troupehq/troupe/actors"
)

// The metrics of a daemon. docs/metrics.md has them with their meaning.
var (
	jobRuns    = counter("job_runs_total", "Runs of jobs that have ended, by outcome.", "class", "outcome")
	jobTimes   = histogram("job_run_seconds", "Time of the runs that ended without an error, and of the interrupted.", "class").like("messaging.process.duration", "process")
	jobWaits   = histogram("job_wait_seconds", "Time from the push of a job to the start of its run, estimated from one run in 16.", "queue")
	jobMoves   = counter("job_moves_total", "Jobs that failed, were put back, or were those of dead processes, by where they went.", "class", "move")
	progress   = counter("job_progress_total", "What the jobs of a class have told to be done, and the items of iterable jobs.", "class")
	fetched    = counter("fetched_jobs_total", "Jobs taken from the queue.", "queue").like("messaging.client.consumed.messages", "receive")
	fetchTime  = histogram("fetch_seconds", "Time of the calls that ask for jobs.", "capsule").like("messaging.client.operation.duration", "receive")
	settleTime = histogram("settle_seconds", "Time of the calls that only settle jobs.", "capsule").like("messaging.client.operation.duration", "settle")

	ticks     = counter("periodic_ticks_total", "Ticks of periodic jobs that this process has dealt with, by what became of them.", "entry", "outcome")
	ticksLost = counter("periodic_missed_ticks_total", "Ticks of periodic jobs that nobody has dealt with in time, and for which no job was pushed.", "entry")
	ticksLate = histogram("periodic_late_seconds", "Time from a tick to the push of its job.")

	limited = gauge("limited_jobs", "Jobs that run under the limit.", "limit")
	holds   = counter("limit_holds_total", "Times that a job found no room under the limit, and was held.", "limit")

	outboxUp      = gauge("outbox_relay", "What the relay of an outbox does in this process: 1 for its state.", "outbox", "state")
	outboxRows    = gauge("outbox_rows", "Rows of an outbox that wait to be pushed, as the relay that leads has counted them.", "outbox")
	outboxOldest  = gauge("outbox_oldest_seconds", "Age of the oldest of them.", "outbox")
	outboxRefused = gauge("outbox_refused_rows", "Rows in troupe_outbox_bad: they can be no jobs.", "outbox")
	outboxPushed  = counter("outbox_pushed_total", "Jobs that the relay of an outbox has pushed.", "outbox")
	outboxBad     = counter("outbox_bad_total", "Rows that the relay has found to be no jobs.", "outbox")

	processors   = gauge("processors", "Processors by what they do.", "capsule", "state")
	waiting      = gauge("waiting_jobs", "Jobs in memory that do not run yet, or have ended and are not settled.", "capsule")
	unresponsive = gauge("unresponsive_jobs", "Jobs that do not end although their context was cancelled.", "capsule")
	oldestRun    = gauge("oldest_run_seconds", "Time since the start of the job that has run for the longest.", "capsule")

	restarts = counter("actor_restarts_total", "Restarts of actors.", "role", "capsule")
	crashes  = counter("actor_crashes_total", "Crashes of actors. A job that panics is one of its processor, and that a supervisor gives up is one of it.", "role", "capsule")
	budget   = gauge("restart_budget_used_ratio", "Part of the restart budget of a supervisor that is used; at 1 the next crash makes it give up.", "supervisor")

	redisUp   = gauge("redis_up", "Whether Redis answers this process.")
	redisRTT  = gauge("redis_rtt_seconds", "Round trip to Redis at the last beat.")
	outage    = counter("redis_outage_seconds_total", "Time that Redis was away.")
	fencings  = counter("fencings_total", "Times this process was taken for dead.")
	rescued   = counter("rescued_jobs_total", "Jobs of dead processes that this one has put back.")
	unkept    = counter("unkept_results_total", "Results of jobs that Redis did not take, mostly since it was out of memory. The jobs are done.")
	logLines  = counter("log_lines_dropped_total", "Lines of the log that were dropped, since nobody read it or it was refused.")
	logStuck  = gauge("log_blocked_seconds", "Time since the log has taken a line; 0 if it is not blocked.")
	phase     = gauge("phase", "Phase of the process: 1 for the one it is in.", "phase")
	buildInfo = gauge("build_info", "Version of troupe, always 1.", "version")
)

// daemonMetrics are all of them.
var daemonMetrics = []*metric{
	jobRuns, jobTimes, jobWaits, jobMoves, progress, fetched, fetchTime, settleTime, ticks, ticksLost, ticksLate, limited, holds, outboxUp, outboxRows, outboxOldest, outboxRefused, outboxPushed, outboxBad, processors, waiting, unresponsive, oldestRun,
	restarts, crashes, budget, redisUp, redisRTT, outage, fencings, rescued, unkept, logLines, logStuck, phase, buildInfo,
}

// pointsOf are the values of the metrics in m.
func pointsOf(m actors.Metrics) (p points) {
	for _, c := range m.Classes {
		class := orOther(c.Class)
		p.observe(jobTimes, c.Times, class)
		for outcome, n := range c.Runs {
			p.add(jobRuns, float64(n), class, outcome)
		}
		for move, n := range c.Moves {
			p.add(jobMoves, float64(n), class, move)
		}
		if c.Class == "" || c.Progress > 0 { // which most classes never have
			p.add(progress, float64(c.Progress), class)
		}
	}
	for _, q := range m.Queues {
		p.add(fetched, float64(q.Fetched), orOther(q.Queue))
		p.observe(jobWaits, q.Waits, orOther(q.Queue))
	}
	for _, e := range m.Periodic {
		for outcome, n := range e.Ticks {
			p.add(ticks, float64(n), orOther(e.Name), outcome)
		}
		p.add(ticksLost, float64(e.Missed), orOther(e.Name))
	}
	p.observe(ticksLate, m.TickLate)
	for _, l := range m.Limits {
		p.add(limited, float64(l.Running), orOther(l.Limit))
		p.add(holds, float64(l.Held), orOther(l.Limit))
	}
	for _, o := range m.Outboxes {
		for _, state := range []string{"leads", "waits", "no_database", "no_tables", "no_redis"} {
			p.add(outboxUp, oneIf(o.State == state), o.Outbox, state)
		}
		if o.State != "waits" { // the one that leads has counted
			p.add(outboxRows, float64(o.Waiting), o.Outbox)
			p.add(outboxOldest, o.Oldest.Seconds(), o.Outbox)
			p.add(outboxRefused, float64(o.Refused), o.Outbox)
		}
		p.add(outboxPushed, float64(o.Pushed), o.Outbox)
		p.add(outboxBad, float64(o.Bad), o.Outbox)
	}
	for _, c := range m.Capsules {
		p.observe(fetchTime, c.Fetch, c.Capsule)
		p.observe(settleTime, c.Settle, c.Capsule)
		for _, s := range []actors.State{
			actors.StateBusy, actors.StateIdle, actors.StateStarting, actors.StateHeld, actors.StateSuspended,
			actors.StateCrashed, actors.StateRestarting, actors.StateStopping,
		} {
			p.add(processors, float64(c.Processors[s]), c.Capsule, string(s))
		}
		p.add(waiting, float64(c.Waiting), c.Capsule)
		p.add(unresponsive, float64(c.Unresponsive), c.Capsule)
		p.add(oldestRun, c.OldestRun.Seconds(), c.Capsule)
	}
	for _, a := range m.Actors {
		p.add(restarts, float64(a.Restarts), a.Role, a.Capsule)
		p.add(crashes, float64(a.Crashes), a.Role, a.Capsule)
	}
	for supervisor, used := range m.Budgets {
		p.add(budget, used, supervisor)
	}
	p.add(redisUp, oneIf(m.RedisUp))
	p.add(redisRTT, m.RedisRTT.Seconds())
	p.add(outage, m.RedisOutage.Seconds())
	p.add(fencings, float64(m.Fencings))
	p.add(rescued, float64(m.Rescued))
	p.add(unkept, float64(m.Unkept))
	p.add(logLines, float64(m.LogDropped))
	p.add(logStuck, m.LogBlocked.Seconds())
	for _, name := range []string{"starting", "running", "quiet", "stopping", "ended"} {
		p.add(phase, oneIf(name == m.Phase), name)
	}
	p.add(buildInfo, 1, actors.Version)
	return p
}

// other stands for all classes, or queues, that are not named.
const other = "_other"

func orOther(name string) string { return cmp.Or(text(name), other) }

// text is a name as the value of a label, which must be text.
func text(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.QuoteToASCII(name)
}

// oneIf is 1 for true.
func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
