package client

import "github.com/troupehq/troupe/internal/job"

// WithSpans begins a span in each call that pushes. It is for package trace: users give trace.Client to New.
func WithSpans(begin job.BeginPush) ClientOption {
	return func(c *Client) { c.spans = begin }
}

// mark adds the fields of the span s to a job of its call, unless the options o have set one
// of them.
func (d *draft) mark(s *job.PushSpan, o *options, class string) {
	if s == nil {
		return
	}
	if s.Jobs++; s.Jobs == 1 {
		s.Queue, s.Class = o.queue, class
	}
	if s.Queue != o.queue {
		s.Queue = ""
	}
	if s.Class != class {
		s.Class = ""
	}
	for _, f := range o.fields {
		if _, own := s.Fields.Get(f.key); own {
			return
		}
	}
	d.raw = append(d.raw, s.Text...)
}
