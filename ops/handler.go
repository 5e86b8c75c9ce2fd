package ops

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/troupehq/troupe/actors"
)

const index = `troupe
/livez       200, or 503 with reasons: an actor is wedged, and only a restart of the process helps
/readyz      200, or 503 with reasons: it takes no jobs
/startupz    200, or 503 with reasons: it is on its way
/scale.json  load and latency of all queues; ?queue=NAME of one or more
/metrics     for Prometheus
`

// Handler answers for the daemons of one process, of which there is one for each Redis. All of it is
// read with GET and safe for concurrent use; the probes ask memory only.
//
//	/livez, /readyz, /startupz  {"status":"ok","reasons":[]}; 503 and "failing" with a reason or more.
//	                            A process is as ready as the least ready of its daemons
//	/scale.json?queue=NAME      {"load":12,"waiting":9,"running":3,"latency_s":1.5} of one queue, of
//	                            several, or of all. It asks Redis, once a second at most; 404 for a queue that
//	                            no daemon takes from, 503 when Redis does not answer or refuses
//	/metrics                    what Collector collects
func Handler(daemons ...*actors.Daemon) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /livez", probe(daemons, func(h actors.Health) actors.Check { return h.Live }))
	mux.Handle("GET /readyz", probe(daemons, func(h actors.Health) actors.Check { return h.Ready }))
	mux.Handle("GET /startupz", probe(daemons, func(h actors.Health) actors.Check { return h.Started }))
	mux.Handle("GET /scale.json", &scale{daemons: daemons})
	mux.Handle("GET /metrics", metricsHandler(daemons))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprint(w, index)
	})
	return mux
}

// answer is what all but the metrics say when there is something wrong, and the probes always.
type answer struct {
	Status  string       `json:"status"`
	Reasons actors.Check `json:"reasons"`
}

func write(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // to a client that may have gone
}

func fail(w http.ResponseWriter, code int, reason, format string, args ...any) {
	write(w, code, answer{"failing", actors.Check{{Code: reason, Text: fmt.Sprintf(format, args...)}}})
}

// probe asks all daemons one question.
func probe(daemons []*actors.Daemon, of func(actors.Health) actors.Check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reasons := actors.Check{}
		for _, d := range daemons {
			for _, why := range of(d.Health()) {
				if len(daemons) > 1 {
					why.Text = d.Identity() + ": " + why.Text
				}
				reasons = append(reasons, why)
			}
		}
		if reasons.OK() {
			write(w, http.StatusOK, answer{"ok", reasons})
			return
		}
		write(w, http.StatusServiceUnavailable, answer{"failing", reasons})
	})
}
