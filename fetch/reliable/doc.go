//go:build claims

// Package reliable is the draft of the next default fetcher. Nothing uses it, and without
// the build tag claims nothing compiles it:
//
//	go test -tags claims ./fetch/reliable
//
// It passes the suite of fetchtest on one server and on a cluster, but for two tests that
// are to change: a pause is seen within 2.5 s here, and what is in hand is what the fetcher
// has handed out, so that a test must not edit it ("paused while waiting", "redis forgets").
// It has yet to follow package claimmodel in all of its rules, and to pass the simulation,
// chaos and the benchmarks beside fetch.NewReliable, before it replaces that.
//
// A call of Take moves jobs, as the bytes that they are, by LMOVE from a queue into a
// list of at most 64, a claim. A push to a waiting fetcher is moved by BLMOVE into a
// waiting list. Every such list is named by a field of a hash, the place:
//
//	troupe:inprogress:ID      hash    the place of owner ID: `!` → generation, call, claim; a list → queue, ms
//	troupe:claim:ID:N         list    claim N, the oldest job on the right
//	troupe:claim:ID:w:QUEUE   list    what blocked moves brought from a queue
//	troupe:lease:ID           string  lives as long as its owner gives signs of life
//	troupe:expiries           zset    ID → end of its lease in ms, an index
//	troupe:places             hash    ID → layout and queues
//
// One server has one place. On a cluster there is one per queue, whose keys carry the
// tag {queue:NAME}; lease, expiries and an index of the owners lie in the slot {troupe}.
// What leaves the slot of its queue there takes two steps, the destination first.
//
// Calls to one place follow each other and are numbered. After one without an answer the
// owner raises the generation, so that what is still on its way is refused, learns by
// the number whether the call was carried out, and compares the lists with what it has
// in hand (resync.go). A Rescuer fences the place of an owner whose lease is over and
// empties its lists; a list that a blocked move may still reach is overwritten by a
// string in the same step, so that the move fails and its job stays in the queue.
//
// Package claimmodel is the model of this protocol; where the two differ the model is
// right.
package reliable
