package fetch

import (
	"fmt"
	"strconv"
	"unsafe"
)

// said is the reply of take and pop.
type said struct {
	claims   []claimed
	paused   []int // of the wants
	problems []problem
	torn     []string // fields of lists whose length is not as expected
}

type claimed struct {
	field string
	queue int // of the wants
	jobs  []string
}

type problem struct {
	queue int // of the wants
	text  string
}

// readReply takes the reply of take or pop apart.
func readReply(text []string) (s said, err error) {
	for len(text) > 1 {
		n, _ := strconv.Atoi(text[1])
		switch {
		case text[0] == "c" && len(text) > 3:
			q, _ := strconv.Atoi(text[2])
			n, _ := strconv.Atoi(text[3])
			s.claims = append(s.claims, claimed{text[1], q - 1, text[4 : 4+n]})
			text = text[4+n:]
		case text[0] == "p":
			s.paused = append(s.paused, n-1)
			text = text[2:]
		case text[0] == "e" && len(text) > 2:
			s.problems = append(s.problems, problem{n - 1, text[2]})
			text = text[3:]
		case text[0] == "t":
			s.torn = append(s.torn, text[1])
			text = text[2:]
		default:
			return s, fmt.Errorf("unexpected reply %q", text[0])
		}
	}
	return s, nil
}

// bytesOf is s as bytes that nobody may modify.
func bytesOf(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}
