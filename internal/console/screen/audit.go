package screen

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/troupehq/troupe/internal/console/doctor"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/words"
)

// auditEvery is how often the doctor looks: it asks much. It has as long for it.
const auditEvery = 30 * time.Second

// audit is what the doctor has found at last.
type audit struct {
	mu    sync.Mutex
	began time.Time // of the last look
	ended time.Time // of the look that found this; zero for none
	found []doctor.Finding
	err   error // of a later look
}

// audited returns the dangers that the doctor has found, and what there is to say of when and what else. It does
// not wait: if the last look is old another one begins.
func (r *Redis) audited() (dangers []fleet.Problem, told string) {
	if !r.Audit {
		return nil, ""
	}
	a := &r.audit
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.began) > auditEvery {
		a.began = time.Now()
		go r.examine()
	}
	if a.ended.IsZero() {
		told = "The doctor has not looked yet."
	} else {
		told = fmt.Sprintf("The doctor looked %s ago", words.Since(a.ended))
		count := map[string]int{}
		for _, p := range fleet.Audited(a.found) {
			if count[p.Severity]++; p.Severity == doctor.Danger {
				dangers = append(dangers, p)
			}
		}
		var counts []string
		for _, severity := range []string{doctor.Danger, doctor.Warning, doctor.Note} {
			if n := count[severity]; n > 0 {
				counts = append(counts, words.Plural(n, severity))
			}
		}
		if counts != nil {
			told += ", and found " + strings.Join(counts, ", ") + "; all: troupe doctor"
		}
		told += "."
	}
	if a.err != nil {
		told += " Its last look failed: " + a.err.Error() + "."
	}
	return dangers, told
}

func (r *Redis) examine() {
	ctx, cancel := context.WithTimeout(context.Background(), auditEvery)
	defer cancel()
	var report *doctor.Report
	var err error
	defer func() {
		if v := recover(); v != nil { // the terminal is not to be left as it is
			err = fmt.Errorf("panic: %v", v)
		}
		r.audit.mu.Lock()
		defer r.audit.mu.Unlock()
		if r.audit.err = err; err == nil {
			r.audit.found, r.audit.ended = report.Findings, time.Now()
		}
	}()
	report, err = doctor.Examine(ctx, r.Fleet.Redis)
}
