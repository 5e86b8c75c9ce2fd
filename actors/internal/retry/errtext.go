package retry

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/job"
)

const (
	maxMessage = 10_000 // characters

	// unreadable stands for the message of an error whose Error method panics.
	unreadable = "!!! ERROR MESSAGE THREW AN ERROR !!!"
)

// message returns the text of an error, at most maxMessage characters of UTF-8.
func message(err error) (text string) {
	defer func() {
		if recover() != nil { // a nil pointer in the error, for example
			text = unreadable
		}
	}()
	text = err.Error()
	if len(text) <= maxMessage && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	n := 0
	for _, char := range text { // bytes that are not UTF-8 come as U+FFFD
		if n++; n > maxMessage {
			break
		}
		b.WriteRune(char)
	}
	return b.String()
}

// class is troupe.ErrorClass for errors whose methods may panic.
func class(err error) (name string) {
	defer func() {
		if recover() != nil {
			name = "error"
		}
	}()
	return troupe.ErrorClass(err)
}

// packBacktrace returns the first n lines (all if n < 0) of the stack of an
// error in Sidekiq's form: JSON array, zlib, strict base64, which Sidekiq 6, 7
// and 8 all read. It is empty if there are no lines.
func packBacktrace(err error, n int) string {
	if n == 0 {
		return ""
	}
	lines := errchain.Backtrace(err)
	if n > 0 && n < len(lines) {
		lines = lines[:n]
	}
	if len(lines) == 0 {
		return ""
	}
	clean := make([]string, len(lines))
	for i, line := range lines {
		clean[i] = strings.ToValidUTF8(line, "\ufffd")
	}
	text, encodeErr := job.EncodeJSON(clean)
	if encodeErr != nil { // cannot be: strings of UTF-8
		return ""
	}
	var b bytes.Buffer
	z := deflaters.Get().(*zlib.Writer)
	defer deflaters.Put(z)
	z.Reset(&b)          // which it keeps until the next one
	_, _ = z.Write(text) // a bytes.Buffer takes everything
	_ = z.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// deflaters are kept: one is 800 KB.
var deflaters = sync.Pool{New: func() any { return zlib.NewWriter(nil) }}
