package fetchtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/osproc"
)

// process is a running child.
type process struct {
	r     *rig
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string // what it says; closed when it has ended
}

// spawn starts a child that drains the queues and stops at a step.
func (r *rig) spawn(stop string, batch int, queues ...string) *process {
	r.t.Helper()
	spec, err := json.Marshal(childSpec{
		Harness: r.Name, URL: r.url, Identity: fmt.Sprintf("child:%d:%012x", rand.IntN(1<<16), rand.Int64N(1<<48)),
		Queues: queues, Lease: shortLease, Batch: batch, Stop: stop,
	})
	r.must("child", err)
	exe, err := os.Executable()
	r.must("child", err)
	p := &process{r: r, cmd: exec.CommandContext(r.ctx, exe), lines: make(chan string, 100)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(spec))
	p.cmd.Stderr = os.Stderr
	p.stdin, err = p.cmd.StdinPipe()
	r.must("child", err)
	stdout, err := p.cmd.StdoutPipe()
	r.must("child", err)
	r.must("start child", p.cmd.Start())
	go func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(stdout); scan.Scan(); {
			p.lines <- scan.Text()
		}
	}()
	r.t.Cleanup(p.kill)
	return p
}

// reaches waits until the child says that it is at the step.
func (p *process) reaches(line string) {
	p.r.t.Helper()
	for {
		select {
		case got, ok := <-p.lines:
			if !ok {
				p.r.t.Fatalf("the child ended before %q", line)
			}
			if got == line {
				return
			}
		case <-p.r.ctx.Done():
			p.r.t.Fatalf("the child did not come to %q", line)
		}
	}
}

// ends waits for the child's own end and returns what it said.
func (p *process) ends() string {
	p.r.t.Helper()
	var said []string
	for line := range p.lines {
		said = append(said, line)
	}
	p.r.must("child", p.cmd.Wait())
	return strings.Join(said, "\n")
}

func (p *process) signal(sig os.Signal) {
	p.r.t.Helper()
	p.r.must("signal", p.cmd.Process.Signal(sig))
}

// kill is SIGKILL; the child is gone when it returns.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	for range p.lines { // to its end: Wait closes the pipe
	}
	_ = p.cmd.Wait()
}

// census is where every job stands.
type census struct {
	runs, queued, placed map[string]int
}

func (r *rig) census(queues ...string) census {
	r.t.Helper()
	c := census{map[string]int{}, map[string]int{}, map[string]int{}}
	runs, err := r.rdb.LRange(r.ctx, runsKey, 0, -1).Result()
	r.must("list runs", err)
	for _, p := range runs {
		c.runs[p]++
	}
	for _, queue := range queues {
		for _, p := range r.queued(queue) {
			c.queued[p]++
		}
	}
	for _, to := range []fetch.Destination{fetch.ToRetry, fetch.ToDead} {
		for _, z := range r.placed(to) {
			c.placed[strings.TrimPrefix(z.Member.(string), "retry of ")]++
		}
	}
	return c
}

// missing counts jobs that are nowhere: neither waiting, nor moved, nor run
// with the ending to be gone then.
func (c census) missing(pushed []string) (n int) {
	for _, p := range pushed {
		if c.queued[p]+c.placed[p] == 0 && (c.runs[p] == 0 || ending(p) != toAck) {
			n++
		}
	}
	return n
}

// check fails on jobs that are in two places or ran more often than faults allow.
func (r *rig) check(c census, pushed []string, maxRuns int) {
	r.t.Helper()
	for _, p := range pushed {
		twice := c.queued[p]+c.placed[p] > 1
		if r.TwoSteps && c.queued[p] == 1 && c.placed[p] == 1 {
			twice = false // until it has run again: then it is moved onto itself
		}
		if twice {
			r.t.Errorf("job %q is %d times in queues and %d times in sets", p, c.queued[p], c.placed[p])
		}
		if c.runs[p] > maxRuns {
			r.t.Errorf("job %q ran %d times, expected at most %d", p, c.runs[p], maxRuns)
		}
	}
}

// recoverAll rescues until no job is missing, lets a child drain the queues,
// and checks that all is done: each job ran, and was moved once if it was to be.
func (r *rig) recoverAll(pushed []string, maxRuns int, queues ...string) {
	r.t.Helper()
	r.rescueUntil("no job is missing", func() bool { return r.census(queues...).missing(pushed) == 0 })
	r.check(r.census(queues...), pushed, maxRuns)
	r.until("all is done", func() bool {
		r.must("rescue", r.Rescue(r.ctx, r.rdb, shortLease))
		r.spawn("", 50, queues...).ends()
		c := r.census(queues...)
		for _, p := range pushed {
			if c.queued[p] > 0 || c.runs[p] == 0 || ending(p) != toAck && c.placed[p] == 0 {
				return false
			}
		}
		return true
	})
	r.check(r.census(queues...), pushed, maxRuns)
}

// killedAt: a child dies at one step. What it had in progress is back in its
// queue, in order, and nothing else has changed.
func killedAt(r *rig, step string) {
	pushed := append(r.push("a", 40), r.push("b", 20)...)
	p := r.spawn(step, 25, "a", "b")
	p.reaches("at " + step)
	p.kill()
	r.rescueUntil("no job is missing", func() bool { return r.census("a", "b").missing(pushed) == 0 })
	for _, queue := range []string{"a", "b"} {
		last := -1
		for _, job := range r.queued(queue) {
			var n int
			if _, err := fmt.Sscanf(job, queue+" %d", &n); err != nil || n <= last && !r.RescueToBack {
				r.t.Errorf("queue %s is out of order at %q: %q", queue, job, r.queued(queue))
				break
			}
			last = n
		}
	}
	r.recoverAll(pushed, 2, "a", "b")
}

// killedAtRandom: children that drain queues are killed one after the other.
func killedAtRandom(r *rig) {
	pushed := append(r.push("a", 1500), r.push("b", 500)...)
	const kills = 8
	for range kills {
		p := r.spawn("", 1+rand.IntN(64), "a", "b")
		runs := r.rdb.LLen(r.ctx, runsKey).Val()
		r.until("the child works", func() bool {
			return r.rdb.LLen(r.ctx, runsKey).Val() > runs || len(r.queued("a"))+len(r.queued("b")) == 0
		})
		time.Sleep(rand.N(30 * time.Millisecond)) // the instant is the random part
		p.kill()
		r.must("rescue", r.Rescue(r.ctx, r.rdb, shortLease))
	}
	r.recoverAll(pushed, 1+kills, "a", "b")
}

// pausedAndContinued: a child that was paused beyond its lease and rescued
// finds itself fenced; what it says about its old units is refused.
func pausedAndContinued(r *rig) {
	for _, step := range []string{"take/after", "settle/before", "settle/after"} {
		r.must("flush", r.rdb.FlushDB(r.ctx).Err())
		pushed := r.push("a", 40)
		p := r.spawn(step, 25, "a")
		p.reaches("at " + step)
		p.signal(osproc.Pause)
		r.rescueUntil("the units are back", func() bool {
			return len(r.queued("a"))+len(r.placed(fetch.ToRetry))+len(r.placed(fetch.ToDead)) == 40
		})
		p.signal(osproc.Resume)
		_, err := io.WriteString(p.stdin, "go\n")
		r.must("continue", err)
		if said := p.ends(); !strings.Contains(said, "fenced") {
			r.t.Errorf("stopped at %s, the child was not told that it is fenced: %s", step, said)
		}
		r.recoverAll(pushed, 2, "a")
	}
}
