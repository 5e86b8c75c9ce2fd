// Package claimmodel is a model of the fetch protocol: claims of raw bytes that a
// place names, waiting lists that blocked moves fill, numbered calls, resync,
// closing and rescue, on one server and on Cluster (a place per slot). Only tests
// use it.
//
// There is no Redis, no goroutine and no clock. A [Master] holds lists, hashes and
// sorted sets, and serves blocked moves; a script of the protocol is one function
// that runs on it in one step ([Take], [Move], [GiveBack], [Put], [Resync], [Page],
// [Restore], [Refuse], [Open], [Renew], [Leave], [Look], [Fence], [Rescue]). Their
// comments name KEYS and ARGV: the Lua scripts do the same. Owners, waiters and
// rescuers are what Go does around them (owner.go, calls.go, asking.go, waiting.go,
// lease.go, rescuer.go).
//
// A [History] draws what happens next out of all that can happen (faults.go):
// somebody pushes, a command arrives or lies in its socket, a connection breaks
// before or after, a client sends a call twice, a script breaks off half-way, a
// process or its machine dies, stops, is suspended, cloned or told to stop, a
// rescuer dies between any two scripts, a destination answers WRONGTYPE, Redis is
// out of memory, a master falls back to what it held before, a day passes. Then all
// faults stop (settle.go), and every job must end, every process leave, and nothing
// of troupe stay behind.
//
// What must hold, at each step or at the end (account.go, settle.go):
//
//   - lost: what was pushed has ended, or Redis forgot it while nobody alive held it,
//     or while its owner could not know yet;
//   - stuck: nothing lies in a list that nobody looks at;
//   - second run: each run of a job but the first is explained by the death or the
//     fence of an owner, by what came back when a master fell back, by a script that
//     broke off, or by an outcome that asks for it; a lost reply explains none;
//   - at the same time: no two live owners that are not fenced run one job;
//   - stale start: no job starts on a lease that is over, or after a fence;
//   - echo: nobody's own wait gets what it gives back;
//   - left behind: keys of troupe, at once after a stop without faults, after a day
//     otherwise.
//
// In half of the histories jobs have effects (effects.go): they push two jobs with their ack, one of which is unique;
// they are iterable, and each item pushes one in the step that stores the cursor behind it; they are unique
// themselves. Then these must hold as well:
//
//   - half: what a job pushes enters in the step that takes the job out of progress, or stores the cursor behind its
//     item, and neither happens without the other;
//   - not pushed: of a run that its owner takes for settled all has entered, but what others hold the lock of;
//   - doubled: nothing enters twice, unless Redis has fallen back, or has two copies of the job for a reason that
//     explains runs more;
//   - two holders: nobody takes a lock while the job that has taken it waits or is in progress, unless the time of
//     the lock is over or Redis has forgotten it. After a fallback the holder is who had it in the data that came back;
//   - lock without a job: when all jobs have ended no lock is left, but of jobs that Ruby ran and of jobs put aside
//     unread.
//
// In histories of their own all jobs are under a limit of one at once (limits.go): they ask before they start, are held, let in
// by who leaves, who asks and the leader, leave with their move, are requeued, given up, and their slots are renewed by beats. Then
// these must hold as well:
//
//   - above the limit: no two jobs of a limit run, unless a process was away for longer than a slot lives, or was fenced;
//   - order: nobody comes in while others are held;
//   - without a slot: a run whose slot Redis has forgotten takes it again before anything else;
//   - slot without a job: when all jobs have ended no slot is left, but of jobs that Ruby ran. Held jobs are then none.
//
// In others, on one server, the jobs that are pushed before a batch is closed are in it (batches.go): the move that ends a job counts it there,
// keeps what its run says, and pushes the callback of the batch with the last of them. Then these must hold as well:
//
//   - count: what is pending is what has entered and has not ended, at each step; not counted: a job that has ended is counted;
//   - early: the callback enters when no job of the batch waits or is in progress, and the batch is closed;
//   - doubled, missing: it enters once, unless Redis has fallen back;
//   - result: what is kept of a job changes in the step that ends it, to what the run says that is settled, and in no other.
//
// [Without] takes single rules out; the tests want to see a history in which the
// lack of each shows. go test -run TestEachRuleIsNeeded/Numbers -model.show prints
// the smallest such history, step by step.
//
// Left out: bytes and page sizes, the index of expiries, paused queues, the order of
// queues, counts of recoveries and suspects, fairness of waits, a slot that moves,
// commands that outlive the server that they were sent to, data that vanishes
// under open connections (FLUSHALL), chains (a chain is a push), jobs that hold their lock
// until they start, several limits of a job, rates, scripts that break off while jobs are under limits, and effects in processes that were cloned, batches within batches,
// who waits for results.
package claimmodel
