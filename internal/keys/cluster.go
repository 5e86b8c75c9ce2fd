package keys

import "strings"

// HashTag is the part of a key that a cluster finds its slot by.
func HashTag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// ClusterSuspects is the list of a queue's Suspects on a cluster, in the queue's
// own slot.
func ClusterSuspects(queue string) string { return "{" + Queue(queue) + "}" + SuspectsSuffix }

// ClusterUnreadable is the list of jobs of a queue that no connection could carry, in the
// queue's own slot; elsewhere these go to the dead set.
func ClusterUnreadable(queue string) string { return "{" + Queue(queue) + "}.unreadable" }

// ClusterRecovered is Recovered on a cluster: for the jobs of one queue, in its slot.
func ClusterRecovered(queue string) string { return Recovered + ":{" + Queue(queue) + "}" }

// ClusterRecoveredLog is RecoveredLog on a cluster.
func ClusterRecoveredLog(queue string) string { return ClusterRecovered(queue) + ":log" }

// Moving is the sorted set of members of set that are on their way to another
// slot, by the time at which their mover counts as dead. It is in set's own slot.
func Moving(set string) string { return "troupe:moving:{" + set + "}" }

// ClusterPoller is Poller on a cluster: one for each of the sets, in its slot.
func ClusterPoller(set string) string { return Poller + ":{" + set + "}" }

// ClusterStandby is Standby on a cluster.
func ClusterStandby(set string) string { return ClusterPoller(set) + ":standby" }
