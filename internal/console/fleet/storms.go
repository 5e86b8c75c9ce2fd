package fleet

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/troupehq/troupe/internal/console/doctor"
	"github.com/troupehq/troupe/internal/flight"
	"github.com/troupehq/troupe/internal/words"
)

// Storming reports whether so many actors of a process restart that it is not by chance.
func (p *Process) Storming() bool {
	return p.Pulse != nil && p.Phase != Gone && p.Pulse.Recent >= storm
}

const stormDo = "The same code fails again and again. Find what is new: a release, a class of jobs."

// Words with digits are numbers, ids, addresses.
var digits = regexp.MustCompile(`[0-9A-Fa-f]{8}-[0-9A-Fa-f-]{27}|[0-9A-Za-z]*[0-9][0-9A-Za-z]*`)

// mostCause is how many bytes of a failure make its cause: a pulse tells hardly more.
const mostCause = 100

// causeOf is what failures have in common that differ in numbers and ids only: of the first line,
// without the actor that failed.
func causeOf(failure string) string {
	line := words.FirstLine(strings.TrimSuffix(failure, "…"), words.MaxHead)
	if _, after, ok := strings.Cut(line, ": "); ok {
		line = after
	}
	line = digits.ReplaceAllString(line, "#")
	return strings.ToValidUTF8(line[:min(len(line), mostCause)], "")
}

// FirstCrash is the first one of a cause that processes tell of; the zero Record if none does.
func (f *Fleet) FirstCrash(ctx context.Context, cause string, processes []string) (flight.Record, error) {
	records, err := flight.Last(ctx, f.Redis, flight.Most, processes...)
	for _, r := range f.Mask.Records(records) {
		if r.Kind == flight.Crashed && cause == causeOf("x: "+r.Text) {
			return r, nil
		}
	}
	return flight.Record{}, err
}

// Storms are the causes why actors restart again and again, that of the most processes first. First
// is FirstCrash, or remembers what that returned.
func Storms(processes []Process, first func(cause string, processes []string) (flight.Record, error)) ([]Problem, error) {
	causes := map[string][]*Process{}
	var order []string
	ours := 0
	for i := range processes {
		p := &processes[i]
		if p.Pulse != nil && p.Phase != Gone {
			ours++
		}
		if p.Storming() {
			cause := causeOf(p.Pulse.Failure)
			if causes[cause] == nil {
				order = append(order, cause)
			}
			causes[cause] = append(causes[cause], p)
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return len(causes[b]) - len(causes[a]) })
	var all problems
	for _, cause := range order {
		struck, restarts := causes[cause], 0
		var ids []string
		for _, p := range struck {
			restarts += p.Pulse.Recent
			ids = append(ids, p.Identity)
		}
		crash, err := first(cause, ids)
		if err != nil {
			return nil, err
		}
		about, text := Problem{}, fmt.Sprintf("The same failure in %d of %d processes", len(struck), ours)
		switch {
		case len(struck) == 1:
			about.Process, text = ids[0], "Actors of "+struck[0].name()+" crash again and again"
		case cause == "":
			text = fmt.Sprintf("Actors restart again and again in %d processes", len(struck))
		}
		if len(struck) > 1 {
			text += release(struck, processes)
		}
		if !crash.At.IsZero() {
			text += " since " + crash.At.UTC().Format("15:04:05") + " UTC"
			if i := slices.Index(ids, crash.Process); i >= 0 && len(ids) > 1 {
				text += ", first in " + ids[i] + releaseOf(struck[i])
			}
		}
		all.find(about, doctor.Danger, "storm", stormDo, "%s: %s within a minute.%s", text, words.Plural(restarts, "restart"), lastFailure(struck[0]))
	}
	return all, nil
}

// release tells if it is those of one version, and of no other, that are struck.
func release(struck []*Process, processes []Process) string {
	version, others, elsewhere := struck[0].Version, false, false
	for _, p := range struck {
		elsewhere = elsewhere || p.Version != version
	}
	for i := range processes {
		p := &processes[i]
		if p.Pulse == nil || p.Phase == Gone {
			continue
		}
		if others = others || p.Version != version; p.Version == version && !p.Storming() {
			elsewhere = true
		}
	}
	if version == "" || !others || elsewhere {
		return ""
	}
	return ", all those of v" + version + " and no other"
}

// releaseOf is the version and tag of a process.
func releaseOf(p *Process) string {
	version := p.Version
	if version != "" {
		version = "v" + version
	}
	if text := strings.Trim(version+", "+p.Tag, ", "); text != "" {
		return " (" + text + ")"
	}
	return ""
}

// Fences tell, the last one first, when another process has taken the jobs of one, of which these are
// the records.
func Fences(records []flight.Record) []Problem {
	var all problems
	for _, r := range slices.Backward(records) {
		if r.Kind != flight.Fenced {
			continue
		}
		var jobs, refused int
		text := r.Text
		if n, _ := fmt.Sscanf(r.Text, "%d jobs cancelled, %d results refused", &jobs, &refused); n == 2 {
			text = fmt.Sprintf("another process took %s; %s refused", words.Plural(jobs, "job"), words.Plural(refused, "result"))
		}
		all.find(Problem{}, doctor.Warning, "fenced", "This process was away for longer than its lease: a pause of the host, or of the network. It goes on by itself.",
			"At %s UTC, in the capsule %s, %s.", r.At.UTC().Format("2006-01-02 15:04:05"), r.Capsule, text)
	}
	return all
}
