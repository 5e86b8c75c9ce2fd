// Package wirejson scans, edits and encodes the bytes of a payload: JSON as Ruby reads
// and writes it, byte for byte. The nouns of package troupe stand on it.
package wirejson
