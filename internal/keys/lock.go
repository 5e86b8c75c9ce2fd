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
