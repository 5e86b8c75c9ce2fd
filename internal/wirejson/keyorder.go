package wirejson

import "encoding/binary"

// keyWord is a key as it stands in a payload, quotes and colon included, in two
// words of eight bytes: it is recognized at a glance.
type keyWord struct {
	head, headMask uint64
	tail, tailMask uint64

	size int // bytes
	mark uint
}

// keyOrder are the keys that Sidekiq, and troupe's client, write first into every
// job, in their order. A job with another order is read a little slower.
var keyOrder = [...]keyWord{
	keyWordOf("retry"), keyWordOf("queue"), keyWordOf("class"), keyWordOf("args"),
	keyWordOf("jid"), keyWordOf("created_at"), keyWordOf("enqueued_at"),
}

// keyWordOf makes the words of a key of at most 13 bytes.
func keyWordOf(key string) keyWord {
	var text, mask [16]byte
	n := copy(text[:], `"`+key+`":`)
	for i := range n {
		mask[i] = 0xff
	}
	word := binary.LittleEndian.Uint64
	return keyWord{
		head: word(text[:8]), headMask: word(mask[:8]), tail: word(text[8:]), tailMask: word(mask[8:]),
		size: n, mark: markOf(key),
	}
}

// at reports whether the key starts at b[i]; not if the text ends soon after it.
func (k *keyWord) at(b []byte, i int) bool {
	if len(b)-i < 16 {
		return false
	}
	return binary.LittleEndian.Uint64(b[i:])&k.headMask == k.head && binary.LittleEndian.Uint64(b[i+8:])&k.tailMask == k.tail
}
