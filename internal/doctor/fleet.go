package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/keys"
)

// fleet reads who works on what.
func (e *exam) fleet() error {
	ids, err := e.rdb.SMembers(e.ctx, keys.Processes).Result()
	if err != nil {
		return err
	}
	slices.Sort(ids)
	e.code = "dead processes"
	for _, id := range ids {
		p, err := e.inspector.Process(e.ctx, id) // not Processes, which cleans up
		if errors.Is(err, inspect.ErrNotFound) {
			e.find(Note, "nothing: any process of Sidekiq or troupe takes it off the list", "%s is listed as a process and has not beaten for a minute", id)
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

// silence is how long after its last beat a process counts as silent.
const silence = 25 * time.Second

func (e *exam) deadProcesses() error {
	for _, p := range e.processes {
		if since := time.Since(p.Beat).Round(time.Second); since > silence {
			e.find(Warning, "look at its host; what it has goes back when its lease is over: troupe inflight", "%s has not beaten for %s, with %d jobs", p.Identity, since, p.Busy)
		}
	}
	return nil
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
			e.find(Danger, "start a process of troupe, or: troupe rescue", "%s is dead with %d jobs, and no process of troupe lives that puts them back", f.ID, f.Size)
		default:
			e.find(Warning, "nothing: within a minute they are back", "%s is dead with %d jobs", f.ID, f.Size)
		}
	}
	return nil
}

func (e *exam) listeners() error {
	for _, q := range e.queues {
		if q.Size == 0 || strings.HasSuffix(q.Name, keys.SuspectsSuffix) {
			continue
		}
		quiet, listens := 0, false
		for _, p := range e.processes {
			if slices.Contains(p.Queues, q.Name) {
				if listens = listens || !p.Stopping; p.Stopping {
					quiet++
				}
			}
		}
		switch {
		case q.Paused:
			e.find(Note, "troupe queues unpause "+q.Name, "the queue %s is paused with %d jobs", q.Name, q.Size)
		case !listens && quiet > 0:
			e.find(Danger, "start processes: quiet ones do not come back", "%d jobs wait in the queue %s, and all %d processes that listen are quiet", q.Size, q.Name, quiet)
		case !listens:
			e.find(Danger, fmt.Sprintf("let a process take from it: troupe configure ID --queue %s, or its configuration", q.Name), "%d jobs wait in the queue %s, and no process listens", q.Size, q.Name)
		}
	}
	return nil
}

// late is how long a job may be overdue.
const late = time.Minute

func (e *exam) overdue() error {
	for _, set := range []*inspect.JobSet{e.inspector.ScheduledSet, e.inspector.RetrySet} {
		first, _, err := set.Page(e.ctx, 0, 1, true)
		if err != nil {
			return err
		}
		if len(first) > 0 && time.Since(first[0].At) > late {
			due, err := e.rdb.ZCount(e.ctx, set.Name, "-inf", fmt.Sprint(time.Now().Unix())).Result()
			if err != nil {
				return err
			}
			e.find(Danger, "start a process: each looks at the sets", "%d jobs of the set %s are due, the first for %s, and nobody puts them into their queues", due, set.Name, time.Since(first[0].At).Round(time.Second))
		}
	}
	return nil
}

func (e *exam) suspects() error {
	for _, q := range e.queues {
		if name, ok := strings.CutSuffix(q.Name, keys.SuspectsSuffix); ok && q.Size > 0 {
			e.find(Warning, "troupe jobs list queue:"+q.Name, "%d jobs of the queue %s are suspects: their process has died under them, and they run alone, one at a time", q.Size, name)
		}
	}
	return nil
}

// sample is how many entries of each end of a set, or of a queue, are looked at.
const sample = 500

func (e *exam) unreadable() error {
	told := func(where string, bad int, looked, of int64) {
		if bad > 0 {
			e.find(Warning, "troupe jobs list "+where, "%d of %d entries looked at in %s (of %d) are no jobs", bad, min(looked, of), where, of)
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
	return nil
}
