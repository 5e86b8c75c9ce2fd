package keys

// LockPrefix is the begin of the keys of locks of unique jobs.
const LockPrefix = "troupe:lock:"

// Lock is the key of the lock of a unique job of a queue; its value is the jid of the job.
func Lock(digest, queue string, cluster bool) string {
	if cluster {
		return LockPrefix + "{" + Queue(queue) + "}:" + digest
	}
	return LockPrefix + digest
}

// Conflicts is a hash with the locks that have refused jobs lately: lock -> jid of its holder. The leader looks
// whether those jobs are there, and empties it.
const Conflicts = "troupe:conflicts"

// MaxConflicts is how many locks the hash has at most; those beyond it are not noted.
const MaxConflicts = 10_000

// GemLock are the keys of a lock of the gem sidekiq-unique-jobs, version 7 and 8: the hash of its holders, its digest, the list
// of those who wait for it, and the set of all digests.
func GemLock(digest string) []string {
	return []string{digest + ":LOCKED", digest, digest + ":QUEUED", "uniquejobs:digests"}
}
