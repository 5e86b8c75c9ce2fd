package inspect

import (
	"fmt"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/words"
)

// Parent is the jid of the job with whose ack this one was pushed (client.Within, or as the next of a chain); "" if
// it was not pushed so.
func (r *JobRecord) Parent() string { return job.Parent(r.Payload) }

// Behind are the jobs of a chain behind this one (Client.PushChain of package client), the next first; nil if there are none. They are
// in Redis as a part of this job alone. Of a job that is cut it is an error.
func (r *JobRecord) Behind() ([]JobRecord, error) {
	if r.Cut() && job.MayChain([]byte(r.Raw)) {
		return nil, fmt.Errorf("the jobs behind it were not read: it has %s", words.Size(r.Size))
	}
	jobs, err := job.Behind(r.Payload)
	if len(jobs) == 0 {
		return nil, err
	}
	behind := make([]JobRecord, len(jobs))
	for i, p := range jobs {
		behind[i] = newRecord(string(p.Bytes()), "")
	}
	return behind, nil
}
