package keys

import "strings"

// Periodic jobs are kept as sidekiq-cron keeps its jobs: before its version 2 without a namespace.

// PeriodicSet is the set of the PeriodicJobs of a namespace; "" is none.
func PeriodicSet(namespace string) string { return strings.TrimSuffix("cron_jobs:"+namespace, ":") }

// PeriodicJob is the hash of a periodic job. On a cluster it carries a tag, so that its PeriodicMarks and
// PeriodicHistory are in its slot.
func PeriodicJob(namespace, name string, cluster bool) string {
	if namespace != "" {
		name = namespace + ":" + name
	}
	if cluster {
		name = "{" + name + "}"
	}
	return "cron_job:" + name
}

// PeriodicMarks is the zset of the ticks that a periodic job has had: ISO 8601 in UTC, score = its seconds.
func PeriodicMarks(job string) string { return job + ":enqueued" }

// PeriodicHistory is the list of the last jobs that a periodic job has pushed, as JSON, the newest first.
func PeriodicHistory(job string) string { return job + ":jid_history" }

// SchedulerStates is sidekiq-scheduler's hash of what its page has said of its jobs: name -> {"enabled":false}.
const SchedulerStates = "sidekiq-scheduler:states"

// SchedulerPushed is sidekiq-scheduler's zset of the ticks of a job: whoever adds one pushes. Member and score are its
// seconds.
func SchedulerPushed(name string) string { return "sidekiq-scheduler:pushed:" + name }

// Periodic is the hash of who has written periodic jobs: tag -> digest and namespaces, as JSON.
// It goes when Redis forgets, and the jobs are written again.
const Periodic = "troupe:periodic"

// PeriodicChanged is what is published in Wakeup when a periodic job was changed.
const PeriodicChanged = "periodic"

// PeriodicPushed is the number of the last tick of a PeriodicJob that a queue has got on a cluster, in
// the queue's slot.
func PeriodicPushed(queue, job string) string { return "troupe:pushed:{" + Queue(queue) + "}:" + job }
