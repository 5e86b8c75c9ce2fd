package keys

// Batch is the hash of a batch of jobs. It begins the names of its other keys.
func Batch(id string) string { return BatchPrefix + id }

// BatchPrefix begins the keys of batches.
const BatchPrefix = "troupe:batch:"

// BatchRan is the bitmap of the jobs of a batch that have ended a run, by their index.
func BatchRan(id string) string { return Batch(id) + ":ran" }

// BatchDone is that of the jobs that are done.
func BatchDone(id string) string { return Batch(id) + ":done" }

// BatchChildren is the set of the batches that are jobs of a batch.
func BatchChildren(id string) string { return Batch(id) + ":children" }

// Batches is the zset of all batches: ID -> when its keys expire, in seconds. BatchesCancelled has those that were cancelled, likewise.
const (
	Batches          = "troupe:batches"
	BatchesCancelled = Batches + ":cancelled"
)
