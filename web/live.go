package web

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/web/internal/proxies"
)

const (
	mostLive  = 200              // connections,
	mostTabs  = 20               // of a user,
	mostPeers = 100              // of an address
	liveWrite = 10 * time.Second // that a client may take to read
	liveQuiet = 15 * time.Second // after which a comment shows that the connection lives
)

// topics are what pages are renewed at: of a snapshot, and what follows the colon of the topic's
// name, the part that a page shows.
var topics = map[string]func(s *snapshot, of string) any{
	"overview": func(s *snapshot, _ string) any { return []any{s.At, s.Fault != nil} },
	"queues":   func(s *snapshot, _ string) any { return s.Queues },
	"orphans":  func(s *snapshot, _ string) any { return s.At.Truncate(orphansEvery) },
	"periodic": func(s *snapshot, _ string) any { return s.At.Truncate(periodicEvery) },
	"classes":  func(s *snapshot, _ string) any { return s.At.Truncate(classesEvery) },
	"queue":    func(s *snapshot, of string) any { q, _ := s.queueOf(of); return q },
	"sets": func(s *snapshot, _ string) any {
		return []int64{s.Stats.RetrySize, s.Stats.ScheduledSize, s.Stats.DeadSize}
	},
	"processes": func(s *snapshot, _ string) any { return []any{s.Processes, pulses(s)} },
}

// watches are topics that the pages of trees and events have beside those: more is read for them,
// and each second.
var watches = map[string]func(r *request, s *snapshot, of string) any{
	"fleet":  (*request).fleetState,
	"tree":   (*request).treeState,
	"events": (*request).eventsState,
}

func pulses(s *snapshot) (all []any) {
	for _, p := range s.Processes {
		all = append(all, p.Pulse)
	}
	return all
}

var liveSeed = maphash.MakeSeed()

// state is what changes when what a topic is about does.
func (r *request) state(s *snapshot, topic string) uint64 {
	kind, of, _ := strings.Cut(topic, ":")
	var about any
	if watch := watches[kind]; watch != nil {
		r.sampler.hurry()
		about = watch(r, s, of)
	} else {
		about = topics[kind](s, of)
	}
	text, _ := json.Marshal(about) // plain data
	return maphash.Bytes(liveSeed, text)
}

// live tells, as server-sent events and at each look at most once, that what a page is about has changed.
func (r *request) live() error {
	topic := r.query("topic")
	kind, _, _ := strings.Cut(topic, ":")
	if topics[kind] == nil && watches[kind] == nil {
		return wrong("See web/live.go for the topics.", "There is no topic %q.", topic)
	}
	leave, ok := r.enter()
	if !ok {
		return &fault{Status: http.StatusServiceUnavailable, Text: "Too many pages are open.", Do: "The page looks itself, every ten seconds."}
	}
	defer leave()
	out := http.NewResponseController(r.w)
	h := r.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	send := func(format string, args ...any) error {
		_ = out.SetWriteDeadline(time.Now().Add(r.liveWrite)) // where it can be set
		if _, err := fmt.Fprintf(r.w, format, args...); err != nil {
			return err
		}
		return out.Flush()
	}
	_ = out.SetReadDeadline(time.Time{})
	if send("retry: 5000\n\n") != nil {
		return nil
	}
	quiet := time.NewTicker(liveQuiet)
	defer quiet.Stop()
	var last uint64
	var known bool
	for {
		s, next := r.sampler.touch()
		if s != nil {
			if now := r.state(s, topic); now != last {
				if known && send("event: change\ndata: %s\n\n", oneLine(topic)) != nil {
					return nil
				}
				last, known = now, true
			}
		}
		select {
		case <-next:
		case <-quiet.C:
			if _, err := r.authenticate(); err != nil || send(":\n\n") != nil {
				return nil
			}
		case <-r.Context().Done():
			return nil
		case <-r.ctx.Done():
			return nil
		}
	}
}

// enter counts a live connection until leave is called, if there is room for one more.
func (r *request) enter() (leave func(), ok bool) {
	most := map[string]int{"": mostLive, "user " + r.user.Name + " " + r.via: mostTabs, "address " + proxies.Network(r.RemoteAddr): mostPeers}
	r.openMu.Lock()
	defer r.openMu.Unlock()
	for name, n := range most {
		if r.open[name] >= n {
			return nil, false
		}
	}
	for name := range most {
		r.open[name]++
	}
	return func() {
		r.openMu.Lock()
		defer r.openMu.Unlock()
		for name := range most {
			if r.open[name]--; r.open[name] == 0 {
				delete(r.open, name)
			}
		}
	}, true
}

func oneLine(text string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(text) }

// queueOf returns the queue of that name in the snapshot.
func (s *snapshot) queueOf(name string) (fleet.Queue, bool) {
	if i := slices.IndexFunc(s.Queues, func(q fleet.Queue) bool { return q.Name == name }); i >= 0 {
		return s.Queues[i], true
	}
	return fleet.Queue{Name: name}, false
}
