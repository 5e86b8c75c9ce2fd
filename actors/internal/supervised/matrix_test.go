package supervised

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/tree"
	"github.com/troupehq/troupe/supervisor"
)

// The matrix of OTP's supervisor_SUITE on the real actor system: strategy ×
// ending of a child × budget × during start, run or stop, with restarts in place
// and with replacement. The tree is
//
//	launcher   one_for_one, with budget left
//	└ 0        the supervisor in question
//	   ├ 0
//	   ├ 1     the child that ends
//	   └ 2
//
// and the outcome is the life in which each actor is, "-" if it has ended.
func TestMatrix(t *testing.T) {
	const (
		same      = "1: 1 1 1"
		oneOnly   = "1: 1 2 1"
		oneGone   = "1: 1 - 1"
		everybody = "1: 2 2 2"
		laterOnes = "1: 1 2 2"
		escalated = "2: 2 2 2"
	)
	restarted := map[string]string{"one_for_one": oneOnly, "all_for_one": everybody, "rest_for_one": laterOnes}
	type outcome func(kind string) string
	always := func(s string) outcome { return func(string) string { return s } }
	group := func(kind string) string { return restarted[kind] }
	for _, tc := range []struct {
		ending string
		during string
		end    func(*matrix)
		left   outcome // with budget left
		spent  outcome // with none
		asked  int     // times that the decider is asked
	}{
		{"crash", "run", func(x *matrix) { x.crash(answerRestart) }, group, always(escalated), 1},
		{"crash of a job", "run", func(x *matrix) { x.crash(answerJob) }, always(oneOnly), always(oneOnly), 1},
		{"stop", "run", func(x *matrix) { x.crash(answerStop) }, always(oneGone), always(oneGone), 1},
		{"resume", "run", func(x *matrix) { x.crash(answerResume) }, always(same), always(same), 1},
		{"escalation", "run", func(x *matrix) { x.crash(answerEscalate) }, always(escalated), always(escalated), 1},
		{"a confused decider", "run", func(x *matrix) { x.crash(answerConfuse) }, group, always(escalated), 1},
		{"ordinary end", "run", func(x *matrix) { x.send(x.child, exit{}) }, always(oneGone), always(oneGone), 0},
		{"crash", "start", func(x *matrix) { x.failStarts(1) }, group, always(escalated), 1},
		{"crashes", "start", func(x *matrix) { x.failStarts(2) }, func(kind string) string {
			return map[string]string{"one_for_one": "1: 1 3 1", "all_for_one": "1: 3 3 3", "rest_for_one": "1: 1 3 3"}[kind]
		}, always("3: 3 3 3"), 2},
		{"crash", "stop", func(x *matrix) { x.crashWhile(&actor.Stop{}, answerRestart) }, always("-: - - -"), always("-: - - -"), 0},
		{"escalation", "stop", func(x *matrix) { x.crashWhile(&actor.Stop{}, answerEscalate) }, always("-: - - -"), always("-: - - -"), 0},
		{"crash", "restart of the supervisor", func(x *matrix) { x.crashWhile(&actor.Restart{}, answerRestart) }, always(escalated), always(escalated), 0},
		{"escalation", "restart of the supervisor", func(x *matrix) { x.crashWhile(&actor.Restart{}, answerEscalate) }, always(escalated), always(escalated), 0},
	} {
		for _, kind := range []string{"one_for_one", "all_for_one", "rest_for_one"} {
			for _, replace := range []bool{false, true} {
				for intensity, want := range map[int]outcome{3: tc.left, -1: tc.spent} {
					name := fmt.Sprintf("%s during %s/%s/replace=%v/intensity=%d", tc.ending, tc.during, kind, replace, intensity)
					t.Run(name, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							x := plantMatrix(t, kind, intensity, replace)
							tc.end(x)
							if got := x.outcome(); got != want(kind) {
								t.Errorf("got %s, want %s", got, want(kind))
							}
							harness.Equal(t, "the decider was asked times", x.asks(), tc.asked)
						})
					})
				}
			}
		}
	}
}

// One budget for all children together, pruned by the period, fresh after the
// supervisor's own restart.
func TestBudgetIsOfTheSupervisorAndOfItsPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := plantMatrix(t, "one_for_one", 2, false) // in 10 s
		step := func(child string, want string) {
			t.Helper()
			x.send(child, Crash{Reason: errModel{answerRestart}})
			if got := x.outcome(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		step("launcher/0/0", "1: 2 1 1")
		time.Sleep(10 * time.Second) // it counts to the end of the period
		step("launcher/0/1", "1: 2 2 1")
		time.Sleep(time.Nanosecond) // not any more
		step("launcher/0/2", "1: 2 2 2")
		step("launcher/0/0", "2: 3 3 3") // the third within the period, of other children
		step("launcher/0/0", "2: 4 3 3") // fresh
		step("launcher/0/0", "2: 5 3 3")
		step("launcher/0/1", "3: 6 4 4")
	})
}

// A child that always crashes when it starts takes its supervisor along, and
// that one the launcher: then the root tells the daemon, once, and at once.
func TestCrashLoopAtTheStartGoesUpToTheRoot(t *testing.T) {
	for _, replace := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			x := plantMatrix(t, "one_for_one", 3, replace)
			x.failStarts(1_000_000)
			x.m.mu.Lock()
			defer x.m.mu.Unlock()
			harness.Equal(t, "fatal times", x.m.fatal, 1)
			for path, want := range map[string]int{launcherName: 1, "launcher/0": 4, x.child: 4 * 4} {
				if got := x.m.starts[path]; got != want {
					t.Errorf("%d lives of %s, want %d", got, path, want)
				}
			}
		})
	}
}

type matrix struct {
	m     *modelled
	child string
}

func plantMatrix(t *testing.T, kind string, intensity int, replace bool) *matrix {
	t.Helper()
	s := &plannedNode{path: "launcher/0", kind: kind, intensity: intensity, period: 10 * time.Second, replace: replace}
	top := &plannedNode{path: launcherName, kind: "one_for_one", intensity: 3, period: time.Hour, onEscalated: supervisor.Restart, children: []*plannedNode{s}}
	m := &modelled{tree: top, rootMax: 2, nodes: []*plannedNode{top, s}, starts: map[string]int{}, poison: map[string]int{}, escalated: map[string]int{}}
	for i := range 3 {
		leaf := &plannedNode{path: fmt.Sprintf("launcher/0/%d", i)}
		s.children = append(s.children, leaf)
		m.nodes = append(m.nodes, leaf)
	}
	m.d = bare(t)
	if err := m.plant(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.d.Root().Stop(actor.NewPID(m.d.actors.Load().Address(), launcherName))
		time.Sleep(time.Second) // the library's dead-letter window
	})
	return &matrix{m: m, child: "launcher/0/1"}
}

func (x *matrix) send(path string, message any) {
	x.m.d.Root().Send(actor.NewPID(x.m.d.actors.Load().Address(), path), message)
	synctest.Wait()
}

func (x *matrix) crash(f answer) { x.send(x.child, Crash{Reason: f.reason()}) }

// failStarts makes the next n starts of the child crash; the first of them is
// that of a new life of its supervisor, which then counts as the first.
func (x *matrix) failStarts(n int) {
	x.m.mu.Lock()
	x.m.poison[x.child] = n
	clear(x.m.starts)
	x.m.starts[launcherName] = 1
	x.m.mu.Unlock()
	mustDo(x.m.d.system("launcher/0", &actor.Restart{}))
	synctest.Wait()
}

// crashWhile makes the child crash of f while its supervisor, which was sent
// order, waits for it to end.
func (x *matrix) crashWhile(order any, f answer) {
	until := make(chan struct{})
	x.send(x.child, occupy{until: until, then: f.reason()})
	mustDo(x.m.d.system("launcher/0", order))
	synctest.Wait()
	close(until)
	synctest.Wait()
}

func mustDo(err error) {
	if err != nil {
		panic(err)
	}
}

func (x *matrix) asks() (n int) {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	for _, line := range x.m.asked {
		if strings.HasPrefix(line, "launcher/0: ") {
			n++
		}
	}
	return n
}

// outcome is the life of the supervisor, and those of its children.
func (x *matrix) outcome() string {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	life := func(path string) string {
		n := rowOf(x.m.d, path)
		switch n.State {
		case tree.StateRunning:
			return fmt.Sprint(x.m.starts[path])
		case tree.StateStopped:
			return "-"
		default:
			return string(n.State)
		}
	}
	return fmt.Sprintf("%s: %s %s %s", life("launcher/0"), life("launcher/0/0"), life("launcher/0/1"), life("launcher/0/2"))
}
