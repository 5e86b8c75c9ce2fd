package operate

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/console/cli"
)

// filterFlags are the flags of a filter.
type filterFlags struct {
	filter                                                       bulk.Filter
	since, until, whenSince, whenUntil, failedSince, failedUntil string
}

func (f *filterFlags) add(s *pflag.FlagSet) {
	s.StringVar(&f.filter.Text, "text", "", "only jobs with this text in the class, the jid, the error or the arguments as they are shown")
	s.StringVar(&f.filter.Class, "class", "", "only jobs of this class")
	s.StringVar(&f.filter.Queue, "queue", "", "only jobs of this queue")
	s.StringVar(&f.filter.Error, "error", "", "only jobs that failed with this text in the error")
	s.StringVar(&f.filter.Tag, "tag", "", "only jobs with this tag")
	s.StringVar(&f.failedSince, "failed-since", "", "only jobs that have failed since, the last time: a time, or a span back like 1h")
	s.StringVar(&f.failedUntil, "failed-until", "", "only jobs whose last failure is before")
	s.StringVar(&f.whenSince, "when-since", "", "only jobs whose WHEN (next try, due, death, push or start) is not before; of retry and scheduled a span is one ahead")
	s.StringVar(&f.whenUntil, "when-until", "", "only jobs whose WHEN is before")
	for name, to := range map[string]*string{"since": &f.since, "until": &f.until} {
		s.StringVar(to, name, "", "")
		_ = s.MarkDeprecated(name, "it means WHEN, of a retry its next try: use --failed-"+name+" or --when-"+name)
	}
}

// read is the filter of the jobs of a set, a queue or those that run.
func (f *filterFlags) read(s *cli.Session, of string, now time.Time) (filter bulk.Filter, err error) {
	filter = f.filter
	filter.Mask = s.Mask
	filter.Args = func(r *inspect.JobRecord, _ *inspect.JobSummary) json.RawMessage { return s.Mask.Summary(r).Args }
	when := bulk.ParseTime
	if of == "retry" || of == "scheduled" {
		when = bulk.ParseFuture
	}
	for _, t := range []struct {
		flag, text string
		to         *time.Time
		parse      func(string, time.Time) (time.Time, error)
	}{
		{"--since", f.since, &filter.Since, bulk.ParseTime}, {"--until", f.until, &filter.Until, bulk.ParseTime},
		{"--when-since", f.whenSince, &filter.Since, when}, {"--when-until", f.whenUntil, &filter.Until, when},
		{"--failed-since", f.failedSince, &filter.FailedSince, bulk.ParseTime}, {"--failed-until", f.failedUntil, &filter.FailedUntil, bulk.ParseTime},
	} {
		if t.text == "" {
			continue
		}
		if *t.to, err = t.parse(t.text, now); err != nil {
			return filter, fmt.Errorf("%s: %w", t.flag, err)
		}
	}
	return filter, nil
}
