// This file cuts a stream of the Redis protocol, version 2 or 3, into whole
// commands and replies, for the tests' proxies. It keeps the bytes and
// understands only as much as finding their ends takes.

package redistest

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
)

// maxDepth bounds nested replies, maxLength the length that a header may claim:
// Redis's own limit of a bulk string.
const (
	maxDepth  = 64
	maxLength = 512 << 20
)

// ReadReply reads one command or reply and returns its bytes.
func ReadReply(r *bufio.Reader) ([]byte, error) { return read(r, nil, 0) }

func read(r *bufio.Reader, to []byte, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("resp: more than %d levels", maxDepth)
	}
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, fmt.Errorf("resp: line %q does not end with CR LF", line)
	}
	kind, head := line[0], string(line[1:len(line)-2])
	to = append(to, line...)
	parts := 0
	switch kind {
	case '+', '-', ':', ',', '_', '#', '(':
		return to, nil
	case '$', '=', '!':
		n, err := length(head)
		if err != nil || n < 0 {
			return to, err
		}
		at := len(to)
		to = append(to, make([]byte, n+2)...)
		_, err = io.ReadFull(r, to[at:])
		return to, err
	case '*', '>', '~':
		parts, err = length(head)
	case '%', '|':
		parts, err = length(head)
		parts *= 2
		if kind == '|' {
			parts++ // attributes stand before the reply that they are about
		}
	default:
		return nil, fmt.Errorf("resp: %q begins neither a command nor a reply", line)
	}
	for ; parts > 0 && err == nil; parts-- {
		to, err = read(r, to, depth+1)
	}
	return to, err
}

func length(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < -1 || n > maxLength {
		return 0, fmt.Errorf("resp: length %q, expected -1 to %d", text, maxLength)
	}
	return n, nil
}

// ReadCommand reads one command: its bytes, and its words.
func ReadCommand(r *bufio.Reader) (raw []byte, words []string, err error) {
	if raw, err = ReadReply(r); err != nil {
		return nil, nil, err
	}
	rest := raw
	next := func() (kind byte, n int) {
		end := 1
		for rest[end] != '\r' {
			end++
		}
		n, err = length(string(rest[1:end]))
		kind, rest = rest[0], rest[end+2:]
		return kind, n
	}
	kind, n := next()
	if kind != '*' || n < 1 {
		return nil, nil, fmt.Errorf("resp: a command begins with %q, expected an array", raw[:1])
	}
	words = make([]string, 0, n)
	for range n {
		kind, n := next()
		if err != nil || kind != '$' || n < 0 {
			return nil, nil, fmt.Errorf("resp: word %d of a command is no string", len(words)+1)
		}
		words = append(words, string(rest[:n]))
		rest = rest[n+2:]
	}
	return raw, words, nil
}
