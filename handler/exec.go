package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/handlerconf"
	"github.com/troupehq/troupe/internal/words"
)

const (
	// killDelay is the time between TERM and KILL on timeout or cancel.
	killDelay = 5 * time.Second
	// shutdownKillDelay is the same at the hard shutdown: shorter than the
	// daemon's grace of 3 s, so that the child is gone before the process exits.
	shutdownKillDelay = 2 * time.Second
	// drainDelay is how long output is still read when the program has exited
	// but something outside its process group keeps a pipe open.
	drainDelay = time.Second

	exitDead = 65 // EX_DATAERR of sysexits.h: no retry can help
)

// execHandler is what NewExec makes.
type execHandler struct {
	argv    []string
	env     []string // names of variables that are passed as well
	result  bool     // stdout is the result
	timeout time.Duration
	log     zerolog.Logger

	killDelay, shutdownKillDelay, drainDelay time.Duration

	after func(time.Duration) <-chan time.Time // for the timeout: time.After
}

// ExecOptions describe an exec handler; Command is required.
type ExecOptions struct {
	// Command is the program, looked up in PATH unless it has a slash, and its
	// arguments. No shell is involved.
	Command []string

	// Env names variables of this process that the program gets, in addition to the few
	// that every program gets. A variable that is not set is not passed.
	Env []string

	// Timeout bounds one run; 0 means never.
	Timeout time.Duration

	// Result makes the output on stdout the result of the job, if the job is done: see troupe.SetResult. Valid JSON is taken as
	// it is, other output as a text without the line breaks at its end. Empty output is no result. The output is not logged. A result of
	// more than troupe.MaxResult bytes is not kept, and the log says so; the job is done all the same.
	Result bool

	// Logger gets what the program writes.
	Logger zerolog.Logger
}

// NewExec returns a handler that runs o.Command. It fails if there is no such
// program now, or for an odd name in o.Env.
//
// The handler performs each job by a program of its own. It is
// safe for concurrent use.
//
// The program gets the payload's bytes, a newline and the end of file on stdin.
// Its environment is
//
//	TROUPE_JID, TROUPE_CLASS  as in the payload (the wrapped class of an ActiveJob)
//	TROUPE_QUEUE              the queue the job was fetched from
//	TROUPE_ATTEMPT            the number of this run, 1 on the first
//
// and of this process's own PATH, HOME, USER, LOGNAME, SHELL, LANG, LANGUAGE,
// LC_*, TZ, TMPDIR, what Windows needs, and the names in o.Env. Control
// characters, and "%", in what comes from the job are percent-encoded. A job whose
// jid, class or queue has a NUL, or takes more than 128 KiB, goes to the dead set,
// since no environment can hold it.
//
// Exit status 0 is done, 65 sends the job to the dead set, anything else is an
// *ExecError and by default a retry. Each line of its output becomes a line of
// the log; the tail of its stderr is the error's message.
//
// The program runs in a process group of its own. On timeout or cancel the group
// gets TERM and 5 s later KILL (2 s later at the hard shutdown, cause
// troupe.ErrShutdown); what is left of the group when the program has exited is
// killed, too, and Perform returns after all of it is gone. The group dies with
// this process, whatever kills that. Only processes that have left the group
// (setsid, setpgid) and those of other users (sudo) escape; docs/handlers.md has
// the details.
func NewExec(o ExecOptions) (troupe.Handler, error) {
	e, err := newExec(o.Command, o.Timeout, o.Logger, o.Env...)
	if err != nil {
		return nil, err
	}
	e.result = o.Result
	return e, nil
}

func newExec(argv []string, timeout time.Duration, log zerolog.Logger, env ...string) (*execHandler, error) {
	if len(argv) == 0 || argv[0] == "" {
		return nil, errors.New("exec is empty, expected a program and its arguments")
	}
	if timeout < 0 {
		return nil, fmt.Errorf("timeout is %s, expected 0 or more", timeout)
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return nil, fmt.Errorf("exec is %q, expected a program that can be run: %w", argv[0], reason(err))
	}
	for _, name := range env {
		if err := handlerconf.Variable(name); err != nil {
			return nil, fmt.Errorf("env is %q, expected %w", name, err)
		}
	}
	return &execHandler{
		argv: argv, env: env, timeout: timeout, log: log,
		killDelay: killDelay, shutdownKillDelay: shutdownKillDelay, drainDelay: drainDelay,
		after: time.After,
	}, nil
}

// reason takes the name of the program, which is already told, off err.
func reason(err error) error {
	if e, ok := errchain.As[*exec.Error](err); ok {
		return e.Err
	}
	return err
}

// Perform runs the program for p.
func (e *execHandler) Perform(ctx context.Context, p *troupe.Payload) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	queue := p.Queue()
	if info, ok := troupe.JobInfoFrom(ctx); ok {
		queue = info.Queue
	}
	vars, err := jobEnvironment(p, queue)
	if err != nil {
		return troupe.Kill(&ExecError{Program: e.argv[0], Status: "not started", Cause: err})
	}
	log := e.log.With().Str("jid", words.Text(p.JID())).Str("class", words.Text(p.HandlerClass())).Logger()
	budget := newBudget()
	stdout := &lines{log: log.With().Str("stream", "stdout").Logger(), budget: budget}
	stderr := &lines{log: log.With().Str("stream", "stderr").Logger(), budget: budget}
	var last tail

	// Not tied to ctx: CommandContext could only kill the program, at once and
	// without its group.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), e.argv[0], e.argv[1:]...)
	cmd.Stdin = io.MultiReader(bytes.NewReader(p.Bytes()), bytes.NewReader([]byte("\n")))
	cmd.Stdout, cmd.Stderr = stdout, io.MultiWriter(stderr, &last)
	var written result
	if e.result {
		cmd.Stdout = &written
	}
	cmd.WaitDelay = e.drainDelay
	cmd.Env = append(environment(e.env), vars...)
	c, err := startChild(cmd, log)
	if err != nil {
		failed := &ExecError{Program: e.argv[0], Status: "not started", Cause: reason(err)}
		if errchain.Is(err, syscall.E2BIG) && len(strings.Join(vars, "")) > usualVariables {
			return troupe.Kill(failed) // the job's fault
		}
		return failed
	}
	cause := e.await(ctx, c)
	stdout.close()
	stderr.close()
	err = e.outcome(cmd.ProcessState, cause, last.String())
	if err == nil && e.result {
		if err := written.set(ctx); err != nil { // the job is done
			log.Warn().Err(err).Msg("the result of a job was not kept")
		}
	}
	return err
}

// await returns when the program and its group are gone: nil, or why they were
// told to end.
func (e *execHandler) await(ctx context.Context, c *child) (cause error) {
	var timeout, kill <-chan time.Time
	var killAt time.Time
	killIn := func(d time.Duration) {
		if at := time.Now().Add(d); killAt.IsZero() || at.Before(killAt) {
			killAt, kill = at, time.After(d)
		}
	}
	if e.timeout > 0 {
		timeout = e.after(e.timeout)
	}
	cancelled := ctx.Done()
	for {
		select {
		case <-c.gone:
			return cause
		case <-timeout:
			timeout = nil
			if cause == nil && c.signal(syscall.SIGTERM) {
				cause = troupe.ErrJobTimeout
				killIn(e.killDelay)
			}
		case <-cancelled:
			cancelled = nil
			why := context.Cause(ctx)
			if cause == nil && c.signal(syscall.SIGTERM) {
				cause = why
				killIn(e.killDelay)
			}
			// Also when a timeout has sent TERM before: the daemon leaves soon.
			if cause != nil && errchain.Is(why, troupe.ErrShutdown) {
				killIn(e.shutdownKillDelay)
			}
		case <-kill:
			c.signal(syscall.SIGKILL)
		}
	}
}

// outcome is what the end of the program means. After it was told to end, status 0
// tells of an orderly end, not of a job done: then it is a failure as well.
func (e *execHandler) outcome(state *os.ProcessState, cause error, stderr string) error {
	err := &ExecError{Program: e.argv[0], Stderr: stderr, Cause: cause}
	code := -1
	if state != nil {
		code = state.ExitCode()
	}
	switch {
	case code == 0 && cause == nil:
		return nil
	case code >= 0:
		err.Status = "exit status " + strconv.Itoa(code)
	default:
		err.Status = "signal: " + signalName(state)
	}
	if code == exitDead {
		return troupe.Kill(err)
	}
	return err
}

func signalName(state *os.ProcessState) string {
	if state != nil {
		if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return ws.Signal().String()
		}
	}
	return "unknown"
}

// ExecError is the failure of a job's program.
type ExecError struct {
	Program string // argv[0]
	Status  string // "exit status 3", "signal: killed", "not started"; the error class
	Stderr  string // the last lines of its stderr, at most 10 and 4 KiB, valid UTF-8

	// Cause is why the program was told to end (troupe.ErrJobTimeout or the
	// cause of the job's context) or could not start; nil if it ended by itself.
	Cause error
}

// Error returns the tail of stderr, else the status, after the cause if any.
func (e *ExecError) Error() string {
	text := e.Stderr
	if text == "" {
		text = e.Program + ": " + e.Status
	}
	if e.Cause != nil {
		text = e.Cause.Error() + ": " + text
	}
	return text
}

// ErrorClass returns Status.
func (e *ExecError) ErrorClass() string { return e.Status }

// Unwrap returns Cause.
func (e *ExecError) Unwrap() error { return e.Cause }
