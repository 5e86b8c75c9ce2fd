package conformance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/troupehq/troupe/client"
)

// fleetQueues are the queues that every process of the fleet works on.
var fleetQueues = []string{"fleet_a", "fleet_b", "fleet_retries"}

// fleetJob is a job of the fleet and what must become of it.
type fleetJob struct {
	jid        string
	task       fleetTask
	queue      string
	retryQueue string // "" is none
	retry      any    // true, false or a number
	dead       bool   // when it has failed too often; else it is dropped
	in         time.Duration
}

// drawFleetJob draws a job: most succeed, at once or after failures; some die in
// one of the ways there are; few hang until the process they are on is stopped.
func drawFleetJob(r *rand.Rand) *fleetJob {
	j := &fleetJob{
		queue: fleetQueues[r.IntN(2)], retry: true, dead: true,
		task: fleetTask{Nap: r.IntN(80), Panic: r.IntN(4) == 0, Hang: r.IntN(60) == 0},
	}
	if r.IntN(3) == 0 {
		j.in = time.Duration(1+r.IntN(3000)) * time.Millisecond
	}
	if r.IntN(4) == 0 {
		j.retryQueue = "fleet_retries"
	}
	switch r.IntN(12) {
	case 0:
		j.retry, j.task.Fails = false, r.IntN(2)
	case 1:
		j.retry, j.task.Fails = 0, r.IntN(2)
	case 2:
		j.retry, j.task.Fails = 2, 2+r.IntN(3)
	case 3:
		j.retry, j.task.Fails, j.dead = 1, 2, false
	case 4, 5, 6:
		j.task.Fails = 1 + r.IntN(3)
	}
	return j
}

// runs is how often the job runs when no stop interrupts it, and place where it
// ends: done, dead or dropped.
func (j *fleetJob) runs() (n int, place string) {
	allowed := 25
	switch retry := j.retry.(type) {
	case int:
		allowed = retry
	case bool:
		if !retry {
			allowed = 0
		}
	}
	switch {
	case j.task.Fails <= allowed:
		return j.task.Fails + 1, "done"
	case j.retry == false || !j.dead:
		return allowed + 1, "dropped"
	default:
		return allowed + 1, "dead"
	}
}

// args are the task and texts that one side might spoil.
func (j *fleetJob) args() json.RawMessage {
	return json.RawMessage(`[` + asJSON(j.task) + `,123456789012345678901234567890,1.5,null,{"é":["` + "\u2028" + `😀<&>"]}]`)
}

// fields are those of the payload besides class, args and at.
func (j *fleetJob) fields() map[string]any {
	fields := map[string]any{"queue": j.queue, "retry": j.retry, "custom": "kept"}
	if j.retryQueue != "" {
		fields["retry_queue"] = j.retryQueue
	}
	if !j.dead {
		fields["dead"] = false
	}
	return fields
}

// pushGo and pushRuby push jobs, each with the client of that side.
func (f *fleet) pushGo(jobs []*fleetJob) {
	f.t.Helper()
	for _, j := range jobs {
		var opts []client.Option
		for key, value := range j.fields() {
			opts = append(opts, with(key, value))
		}
		if j.in > 0 {
			opts = append(opts, client.In(j.in))
		}
		j.jid = f.push("Fleet", string(j.args()), opts...)
	}
}

func (f *fleet) pushRuby(jobs []*fleetJob) {
	f.t.Helper()
	items := make([]map[string]any, 0, len(jobs))
	for _, j := range jobs {
		item := j.fields()
		item["class"], item["args"] = "Fleet", j.args()
		if j.in > 0 {
			item["at"] = float64(time.Now().Add(j.in).UnixMicro()) / 1e6
		}
		items = append(items, item)
	}
	var jids []string
	f.ruby(`args[0].map { |item| Sidekiq::Client.push(item) }`, &jids, items)
	if len(jids) != len(jobs) {
		f.t.Fatalf("Ruby pushed %d of %d jobs", len(jids), len(jobs))
	}
	for i, j := range jobs {
		j.jid = jids[i]
	}
}

func (j *fleetJob) String() string {
	n, place := j.runs()
	return fmt.Sprintf("%s %+v, retry %v, queue %s: %d runs, then %s", j.jid, j.task, j.retry, j.queue, n, place)
}
