package redistest_test

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestAStreamIsCutIntoWholeReplies(t *testing.T) {
	want := []string{
		"+OK\r\n", "-ERR no\r\n", ":12\r\n", "$-1\r\n", "$0\r\n\r\n", "$5\r\nab\r\nc\r\n", "*-1\r\n", "*0\r\n",
		"*2\r\n*1\r\n$1\r\na\r\n:1\r\n", ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(123\r\n",
		"%1\r\n+k\r\n~1\r\n+v\r\n", "=6\r\ntxt:ab\r\n", "!5\r\nERR x\r\n", "|1\r\n+a\r\n+b\r\n:7\r\n",
	}
	r := bufio.NewReaderSize(strings.NewReader(strings.Join(want, "")), 16)
	for _, w := range want {
		got, err := redistest.ReadReply(r)
		if err != nil || string(got) != w {
			t.Errorf("read %q, %v, want %q", got, err, w)
		}
	}
	if _, err := redistest.ReadReply(r); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestACommandIsReadAsItsWords(t *testing.T) {
	const text = "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n"
	raw, words, err := redistest.ReadCommand(bufio.NewReader(strings.NewReader(text)))
	if err != nil || string(raw) != text || !slices.Equal(words, []string{"SET", "", "a\r\nb"}) {
		t.Errorf("%q, %q, %v", raw, words, err)
	}
}

func TestWhatIsNoProtocolIsAnError(t *testing.T) {
	for _, text := range []string{
		"PING\r\n", "+OK\n", "\r\n", "$x\r\n", "$-2\r\n", "$999999999999\r\n", "*2\r\n:1\r\n", "$5\r\nab", strings.Repeat("*1\r\n", 100) + ":1\r\n",
	} {
		if got, err := redistest.ReadReply(bufio.NewReader(strings.NewReader(text))); err == nil {
			t.Errorf("%.20q: read %q", text, got)
		}
	}
	for _, text := range []string{"+PING\r\n", "*0\r\n", "*-1\r\n", "*1\r\n:1\r\n", "*1\r\n$-1\r\n"} {
		if _, words, err := redistest.ReadCommand(bufio.NewReader(strings.NewReader(text))); err == nil {
			t.Errorf("%q: read %q", text, words)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("*2\r\n$1\r\na\r\n:1\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := redistest.ReadReply(bufio.NewReader(strings.NewReader(text)))
		if err == nil && !strings.HasPrefix(text, string(got)) {
			t.Errorf("%q is no part of %q", got, text)
		}
	})
}
