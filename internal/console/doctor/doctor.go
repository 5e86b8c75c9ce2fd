// Package doctor audits a Redis for what endangers jobs. It changes nothing.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/redisconn"
)

// The severities of findings.
const (
	Danger  = "danger"  // jobs can be lost, or are not run
	Warning = "warning" // something is wrong
	Note    = "note"    // good to know
)

// NoHandler is the code of the check for classes without a handler.
const NoHandler = "handlers"

var order = map[string]int{Danger: 0, Warning: 1, Note: 2}

// Finding is something that is not as it should be.
type Finding struct {
	Severity string `json:"severity"`
	Code     string `json:"code"` // of the check
	Text     string `json:"text"` // what is so
	Do       string `json:"do"`   // what to do

	Class    string `json:"class,omitempty"`    // of jobs that it is about
	Periodic string `json:"periodic,omitempty"` // the name of the periodic job that it is about
}

// Report is the result of an audit.
type Report struct {
	Healthy   bool      `json:"healthy"` // neither dangers nor warnings
	Findings  []Finding `json:"findings"`
	Checked   []string  `json:"checked"`   // codes
	Unchecked []string  `json:"unchecked"` // codes, each with the reason
}

// exam is an audit under way.
type exam struct {
	ctx       context.Context //nolint:containedctx // of one audit, as long as that
	rdb       redis.UniversalClient
	inspector *inspect.Inspector
	code      string
	report    Report

	facts     map[string]string // of INFO
	factsErr  error
	processes []*inspect.Process
	silent    []string // identities that are listed as processes, and tell nothing
	queues    []inspect.QueueSummary
	fleetErr  error // of processes and queues
}

// checks are in the order of what they endanger.
var checks = []struct {
	code string
	run  func(*exam) error
}{
	{"writes", (*exam).writes},
	{"version", (*exam).version},
	{"eviction", (*exam).eviction},
	{"persistence", (*exam).persistence},
	{"replica", (*exam).replica},
	{"types", (*exam).types},
	{"rights", (*exam).rights},
	{"timeouts", (*exam).timeouts},
	{"round trips", (*exam).roundTrips},
	{"layouts", (*exam).layouts},
	{"orphans", (*exam).orphans},
	{"unnamed lists", (*exam).unnamed},
	{"listeners", (*exam).listeners},
	{"overdue", (*exam).overdue},
	{"dead processes", (*exam).deadProcesses},
	{"logs", (*exam).logs},
	{"clock", (*exam).clock},
	{"suspects", (*exam).suspects},
	{"unreadable", (*exam).unreadable},
	{NoHandler, (*exam).handlers},
	{"failing", (*exam).failing},
	{"periodic", (*exam).periodic},
	{"locks", (*exam).locks},
	{"limits", (*exam).limits},
	{"batches", (*exam).batches},
	{"outboxes", (*exam).outboxes},
}

// Examine makes an audit. Each check is for itself: what cannot be looked at, for want of a right
// say, is told as unchecked, and the others are made. An error means that Redis does not answer.
func Examine(ctx context.Context, rdb redis.UniversalClient) (*Report, error) {
	e := &exam{ctx: ctx, rdb: rdb, inspector: inspect.New(rdb), report: Report{Findings: []Finding{}, Unchecked: []string{}}}
	e.inspector.MaxRead = inspect.Shown
	if err := rdb.Ping(ctx).Err(); err != nil { // a Redis that cannot save refuses even this
		if _, refused := redisconn.Refused(err); !refused || redisconn.Classify(err) == redisconn.Auth && !redis.HasErrorPrefix(err, "NOPERM") {
			return nil, err
		}
	}
	var text string
	text, e.factsErr = rdb.Info(ctx).Result()
	e.facts = Fields(text)
	e.fleetErr = e.fleet()
	for _, c := range checks {
		e.code = c.code
		if err := c.run(e); err != nil {
			e.report.Unchecked = append(e.report.Unchecked, c.code+": "+err.Error())
			continue
		}
		e.report.Checked = append(e.report.Checked, c.code)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(e.report.Findings, func(a, b Finding) int { return cmp.Compare(order[a.Severity], order[b.Severity]) })
	e.report.Healthy = !slices.ContainsFunc(e.report.Findings, func(f Finding) bool { return f.Severity != Note })
	return &e.report, nil
}

// find notes a finding of the check under way.
func (e *exam) find(severity, do, format string, args ...any) {
	e.report.Findings = append(e.report.Findings, Finding{Severity: severity, Code: e.code, Text: fmt.Sprintf(format, args...), Do: do})
}

// Fields are the lines of the text of INFO, by their names.
func Fields(text string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[name] = value
		}
	}
	return m
}

// fact is a field of INFO.
func (e *exam) fact(name string) (string, error) {
	if e.factsErr != nil {
		if redis.HasErrorPrefix(e.factsErr, "NOPERM") {
			return "", errors.New("the user may not call INFO")
		}
		return "", e.factsErr
	}
	value, ok := e.facts[name]
	if !ok {
		return "", fmt.Errorf("INFO has no %s", name)
	}
	return value, nil
}

// setting is one of CONFIG GET.
func (e *exam) setting(name string) (string, error) {
	all, err := e.rdb.ConfigGet(e.ctx, name).Result()
	if err != nil {
		return "", err
	}
	return all[name], nil
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
