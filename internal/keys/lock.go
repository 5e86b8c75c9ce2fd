package keys

import "strings"

// LockPrefix is the begin of the keys of locks of unique jobs.
const LockPrefix = "troupe:lock:"

// Conflicts is the set of the keys of locks that a push has found held since the last look for locks without a job.
const Conflicts = "troupe:conflicts"

// Lock is the key of the lock of a unique job of a queue; its value is the jid of the job.
func Lock(digest, queue string, cluster bool) string {
	if cluster {
		return LockPrefix + "{" + Queue(queue) + "}:" + digest
	}
	return LockPrefix + digest
}

// IsLock tells whether a key is that of a lock.
func IsLock(key string) bool { return strings.HasPrefix(key, LockPrefix) }
