package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/flight"
	"github.com/troupehq/troupe/internal/words"
)

// Ghosts returns a sentence for each process that is silent or gone: when its last heartbeat was, and what
// becomes of the jobs that it had in progress.
func (f *Fleet) Ghosts(ctx context.Context, processes []Process) (map[string]string, error) {
	all := map[string]string{}
	away := func(p Process) bool { return p.Phase == Silent || p.Phase == Gone }
	if !slices.ContainsFunc(processes, away) {
		return all, nil
	}
	fetchers, err := f.Inspector.Fetchers(ctx)
	if err != nil {
		return nil, err
	}
	rescues, err := flight.Since(ctx, f.Redis, flight.Rescued, map[string]time.Time{})
	if err != nil {
		return nil, err
	}
	rescuer := slices.ContainsFunc(processes, func(p Process) bool { return p.Pulse != nil && !away(p) })
	for i := range processes {
		if p := &processes[i]; away(*p) {
			text := fmt.Sprintf("Last beat %s ago", words.Brief(time.Since(p.Beat)))
			if p.Pulse != nil {
				text += ", " + restOf(p, fetchers, rescues, rescuer)
			}
			all[p.Identity] = text + "."
		}
	}
	return all, nil
}

// restOf tells what becomes of the jobs that a process of troupe had in progress.
func restOf(p *Process, fetchers []*inspect.Fetcher, rescues []flight.Record, rescuer bool) string {
	var jobs int64
	var lease time.Duration
	known := false
	for _, f := range fetchers {
		if f.Process == p.Identity {
			known, jobs, lease = true, jobs+f.Size, max(lease, f.Lease)
		}
	}
	for _, r := range rescues {
		if !known && r.At.After(p.Beat) && strings.Contains(r.Text, p.Identity) {
			return fmt.Sprintf("rescued by %s at %s UTC", r.Process, r.At.UTC().Format("15:04:05"))
		}
	}
	back := words.Plural(jobs, "job") + " go back"
	if jobs == 1 {
		back = "1 job goes back"
	}
	switch {
	case !known:
		return "nothing of it is in progress any more"
	case jobs == 0:
		return "nothing was in progress"
	case !rescuer:
		return back + " as soon as a process of troupe runs, or by troupe rescue"
	case lease > 0:
		return back + " in " + words.Brief(lease+time.Second)
	}
	return back + " within a minute"
}

// WhatBecomes tells who puts the jobs of a fetcher back, and when; alone means that no process of
// troupe lives.
func WhatBecomes(f *inspect.Fetcher, alone bool) string {
	switch {
	case f.Unknown != "":
		return "Written by another version: this one leaves it alone."
	case f.Fenced:
		return "A live process is putting them back."
	case f.Alive:
		return "The process lives. Should it die, they go back when its lease ends, in " + words.Brief(f.Lease) + "."
	case alone:
		return "No process of troupe lives that puts them back: start one, or: troupe rescue."
	}
	return "Its lease is over. A live process puts them back within a minute."
}
