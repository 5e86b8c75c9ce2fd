package keys

// DebouncePrefix is the begin of the keys of Debounce. They are in the slot of Schedule.
const DebouncePrefix = "troupe:debounce:{" + Schedule + "}:"

// Debounce is the hash of what was pushed of a class under a key of client.Debounce last.
func Debounce(class, key string) string { return DebouncePrefix + class + ":" + key }
