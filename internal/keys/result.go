package keys

// ResultPrefix is the begin of the keys of results.
const ResultPrefix = "troupe:result:"

// Result is the key of what a job has ended with, and the channel on which that is told.
func Result(jid string) string { return ResultPrefix + jid }
