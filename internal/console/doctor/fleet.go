package doctor

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/words"
)

// fleet reads who works on what.
func (e *exam) fleet() error {
	ids, err := e.rdb.SMembers(e.ctx, keys.Processes).Result()
	if err != nil {
		return err
	}
	slices.Sort(ids)
	for _, id := range ids {
		p, err := e.inspector.Process(e.ctx, id)
		if errors.Is(err, inspect.ErrNotFound) {
			e.silent = append(e.silent, id)
			continue
		}
		if err != nil {
			return err
		}
		e.processes = append(e.processes, p)
	}
	e.queues, err = e.inspector.Queues(e.ctx)
	return err
}

func (e *exam) deadProcesses() error {
	for _, id := range e.silent {
		e.find(Note, "nothing: any process of Sidekiq or troupe takes it off the list", "%s is listed as a process and has not beaten for a minute", id)
	}
	for _, p := range e.processes {
		if p.Beat.IsZero() {
			e.find(Warning, "look what it is", "%s does not tell when it has beaten", p.Identity)
		} else if since := time.Since(p.Beat).Round(time.Second); since > beat.Silence {
			e.find(Warning, "look at its host; what it has goes back when its lease is over: troupe inflight", "%s has not beaten for %s, with %s", p.Identity, since, words.Plural(p.Busy, "job"))
		}
	}
	return e.fleetErr
}

// logs looks for processes whose log takes no line.
func (e *exam) logs() error {
	pulses, err := beat.ReadPulses(e.ctx, e.rdb)
	for _, p := range e.processes {
		if told := pulses[p.Identity]; told != nil && told.Log != "" {
			e.find(Warning, "look at what reads its stderr; its jobs go on", "the log of %s is %s: %s dropped", p.Identity, told.Log, words.Plural(int64(told.Dropped), "line"))
		}
	}
	return err
}

// slow is the round trip of a beat above which Sidekiq warns.
const slow = 50 * time.Millisecond

func (e *exam) roundTrips() error {
	for _, p := range e.processes {
		if p.RTT > slow {
			e.find(Warning, "SLOWLOG GET shows what is slow in Redis; else look at its load, and at the network",
				"a round trip from %s to Redis takes %s: fetching and settling jobs waits for that", p.Identity, p.RTT.Round(time.Millisecond))
		}
	}
	return e.fleetErr
}

func (e *exam) layouts() error {
	fetchers, err := e.inspector.Fetchers(e.ctx)
	for _, f := range fetchers {
		if f.Unknown != "" {
			e.find(Warning, "let processes of that version live until it is empty, see the changelog", "another version of troupe has jobs in progress (%s): this one leaves them alone", f.ID)
		}
	}
	return err
}

func (e *exam) orphans() error {
	fetchers, err := e.inspector.Fetchers(e.ctx)
	if err != nil {
		return err
	}
	alive := slices.ContainsFunc(fetchers, func(f *inspect.Fetcher) bool { return f.Alive })
	for _, f := range fetchers {
		switch {
		case f.Alive || f.Unknown != "" || f.Size == 0:
		case !alive:
			e.find(Danger, "start a process of troupe, or: troupe rescue", "%s is dead with %s, and no process of troupe lives that puts them back", f.ID, words.Plural(f.Size, "job"))
		default:
			e.find(Warning, "nothing: within a minute they are back", "%s is dead with %s", f.ID, words.Plural(f.Size, "job"))
		}
	}
	return nil
}

// searchTime is how long lists are looked for at once that no index names.
const searchTime = 2 * time.Second

func (e *exam) unnamed() error {
	var s rescue.Search
	lists, done, err := s.Next(e.ctx, e.rdb, searchTime)
	for i := range lists {
		l := &lists[i]
		e.find(Danger, "troupe rescue; a process of troupe does it within 20 minutes, if the jobs tell their queue",
			"%s in the list %s, which no index names: its process is gone", words.Plural(l.Jobs, "job"), l.Key)
	}
	if err == nil && !done {
		err = errors.New("there are more keys than can be looked at at once")
	}
	return err
}

func (e *exam) listeners() error {
	pulses, err := beat.ReadPulses(e.ctx, e.rdb)
	for _, q := range e.queues {
		if q.Size == 0 || strings.HasSuffix(q.Name, keys.SuspectsSuffix) {
			continue
		}
		quiet, listens := 0, false
		for _, p := range e.processes {
			if pulse := pulses[p.Identity]; pulse != nil && pulse.Elsewhere[q.Name] != "" {
				continue // a queue of this name that another system keeps elsewhere
			}
			if slices.Contains(p.Queues, q.Name) {
				switch {
				case p.Stopping:
					quiet++
				case time.Since(p.Beat) <= beat.Silence: // as fleet.Process.Listens
					listens = true
				}
			}
		}
		switch {
		case q.Paused:
			e.find(Note, "troupe queues unpause "+words.Word(q.Name), "the queue %s is paused with %s", q.Name, words.Plural(q.Size, "job"))
		case !listens && quiet > 0:
			e.find(Danger, "start processes: quiet ones do not come back", "the queue %s has %s, and all processes that listen on it are quiet: %d", q.Name, words.Plural(q.Size, "job"), quiet)
		case !listens && len(e.processes) == 0:
			e.find(Danger, "start a process that takes from it", "the queue %s has %s, and no process runs", q.Name, words.Plural(q.Size, "job"))
		case !listens:
			e.find(Danger, "let a process take from it: "+words.TakeFrom(words.Word(q.Name)), "the queue %s has %s, and no process listens on it", q.Name, words.Plural(q.Size, "job"))
		}
	}
	return cmp.Or(e.fleetErr, err)
}

// late is how long a job may be overdue.
const late = time.Minute

func (e *exam) overdue() error {
	for _, set := range []*inspect.JobSet{e.inspector.ScheduledSet, e.inspector.RetrySet} {
		first, due, err := set.Due(e.ctx, time.Now())
		if err != nil {
			return err
		}
		if first != nil && first.Overdue(time.Now()) > late {
			e.find(Danger, "start a process: each looks at the sets", "the set %s has %s, the first for %s, and nobody puts them into their queues", set.Name, words.Plural(due, "due job"), first.Overdue(time.Now()).Round(time.Second))
		}
	}
	return nil
}

func (e *exam) suspects() error {
	for _, q := range e.queues {
		if name, ok := strings.CutSuffix(q.Name, keys.SuspectsSuffix); ok && q.Size > 0 {
			e.find(Warning, "troupe jobs list "+words.Word("queue:"+q.Name), "the queue %s has %s: a process has died under each, and they run alone, one at a time", name, words.Plural(q.Size, "suspect"))
		}
	}
	return e.fleetErr
}

// sample is how many entries of each end of a set, or of a queue, are looked at.
const sample = 500

func (e *exam) unreadable() error {
	told := func(where string, bad int, looked, of int64) {
		if bad > 0 {
			e.find(Warning, "troupe jobs list "+words.Word(where), "%s of %s looked at in %s (of %s) are no jobs", words.Count(bad), words.Plural(min(looked, of), "entry"), where, words.Count(of))
		}
	}
	for _, set := range []*inspect.JobSet{e.inspector.RetrySet, e.inspector.ScheduledSet} { // dead holds such by design
		bad := map[string]bool{}
		size := int64(0)
		for _, lowest := range []bool{true, false} {
			entries, n, err := set.Page(e.ctx, 0, sample, lowest)
			if err != nil {
				return err
			}
			size = n
			for _, entry := range entries {
				if entry.Err != nil {
					bad[entry.Raw] = true
				}
			}
		}
		told(map[string]string{"schedule": "scheduled"}[set.Name]+map[string]string{"retry": "retry"}[set.Name], len(bad), 2*sample, size)
	}
	for _, q := range e.queues {
		jobs, size, err := q.Page(e.ctx, 0, sample)
		if err != nil {
			continue // of another type: the check of types tells
		}
		bad := 0
		for _, j := range jobs {
			if j.Err != nil {
				bad++
			}
		}
		told("queue:"+q.Name, bad, sample, size)
	}
	return e.fleetErr
}
