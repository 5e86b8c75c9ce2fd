package wirejson

// keyMarks tells most of the keys that a payload does not have, and where most of
// the others are: about half of the fields that each run reads are absent.
// The zero value is that of no keys.
type keyMarks struct {
	seen    uint64 // one bit per mark of a key that there is, or was
	indexes uint64 // four bits per mark modulo 16: an index plus one, a mere guess
}

// markOf returns the mark of a key, one of 64. The factors are those that tell
// the keys of an ordinary job from each other, also modulo 16, and from the keys
// that a run asks for.
func markOf[T string | []byte](key T) uint {
	if len(key) == 0 {
		return 0
	}
	return uint(key[0]*13+key[len(key)-1]*2+byte(len(key))*4) % 64
}

// met reports whether a key with this mark may be there.
func (m *keyMarks) met(mark uint) bool { return m.seen>>mark&1 != 0 }

// index guesses the index of the field whose key has the mark; -1 for no idea.
func (m *keyMarks) index(mark uint) int { return int(m.indexes>>(mark%16*4)&15) - 1 }

// note adds the mark of the key of field i.
func (m *keyMarks) note(mark uint, i int) {
	m.seen |= 1 << mark
	if i < 15 {
		m.indexes |= uint64(i+1) << (mark % 16 * 4)
	}
}
