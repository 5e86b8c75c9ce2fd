package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/troupehq/troupe/actors"
)

// downTime is how long a part of the tree may be down before a balancer is to
// hear of it: crashed parts are mostly back within 5 s.
const downTime = 10 * time.Second

// health answers 200 as long as this process should get requests, else 503 and
// why.
func (s *service) health(w http.ResponseWriter, _ *http.Request) {
	stats := s.daemon.Stats()
	why := down(s.daemon.Tree())
	switch {
	case s.stopping.Load() || stats.Quiet:
		why = append(why, "stopping")
	case stats.RedisRefuses != "":
		why = append(why, "redis refuses commands: "+stats.RedisRefuses)
	case stats.RedisAway:
		why = append(why, "redis does not answer")
	}
	w.Header().Set("Content-Type", "application/json")
	if len(why) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"ok": len(why) == 0, "why": why,
		"processed": stats.Processed, "failed": stats.Failed, "busy": stats.Busy,
	})
}

// working are the states of an actor that is well.
var working = []actors.State{actors.StateRunning, actors.StateIdle, actors.StateBusy}

// down names the actors that do not work and have not for a while.
func down(tree actors.Tree) (why []string) {
	for _, n := range tree {
		if !slices.Contains(working, n.State) && n.For >= downTime {
			why = append(why, fmt.Sprintf("%s is %s: %s", n.Path, n.State, n.LastFailure))
		}
	}
	return why
}
