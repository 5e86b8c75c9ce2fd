package keys

// LimitBase begins the keys of limits. On a Redis Cluster each queue has its own, in its slot.
func LimitBase(queue string, cluster bool) string {
	if cluster {
		return "troupe:{" + Queue(queue) + "}:"
	}
	return "troupe:"
}

// The keys of limits, behind a LimitBase.

// Limits is the hash of what limits allow: name -> text, see package job.
func Limits(base string) string { return base + "limits" }

// Slots is the zset of the jobs that a rule lets in: jid -> end in seconds.
func Slots(base, rule string) string { return base + "slots:" + rule }

// Throttled is the zset of a strategy of the gem sidekiq-throttled: jid -> end in seconds.
func Throttled(name, suffix string) string {
	key := "throttled:" + name + ":concurrency.v2"
	if suffix != "" {
		key += ":" + suffix
	}
	return key
}

// Rate is the time at which all tokens of a rule are back, in seconds.
func Rate(base, rule string) string { return base + "rate:" + rule }

// Rest is the hash of a rule with a breaker: failures in a row, the end of its rest, probes.
func Rest(base, rule string) string { return base + "rest:" + rule }

// Held is the zset of the jobs that a rule holds, by age.
func Held(base, rule string) string { return base + "held:" + rule }

// HeldRules is the zset of the rules that hold jobs: rule -> when the leader looks at it.
func HeldRules(base string) string { return base + "held" }

// LimitsChanged is what is published in Wakeup when a rule begins to hold jobs.
const LimitsChanged = "limits"
