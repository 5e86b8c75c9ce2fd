package errchain

import (
	"strings"
)

// traced is an error that tells its stack.
type traced interface {
	error
	Backtrace() []string
}

// Backtrace returns the stack of a failure, innermost frame first, in Ruby's
// form "file.go:12:in `pkg.Func'": the answer of the first error of the chain
// that has a method Backtrace() []string, as troupe.PanicError has.
// Errors of Go carry no stack by themselves: then it is nil.
func Backtrace(err error) (lines []string) {
	defer func() {
		if recover() != nil {
			lines = nil
		}
	}()
	if traced, ok := As[traced](err); ok {
		lines = traced.Backtrace()
	}
	return lines
}

// Frames turns the text of debug.Stack into lines, from the first frame below
// the panic or Goexit on.
func Frames(stack []byte) []string {
	var lines []string
	var fn string
	for text := range strings.Lines(string(stack)) {
		text = strings.TrimSuffix(text, "\n")
		source, isSource := strings.CutPrefix(text, "\t")
		if !isSource {
			fn = text
			continue
		}
		if strings.HasPrefix(fn, "panic(") || strings.HasPrefix(fn, "runtime.Goexit(") {
			lines = lines[:0]
			continue
		}
		source, _, _ = strings.Cut(source, " +0x")
		lines = append(lines, source+":in `"+funcName(fn)+"'")
	}
	return lines
}

// funcName takes the argument words off "pkg.(*T).Func(0xc000, …)".
func funcName(fn string) string {
	if strings.HasPrefix(fn, "created by ") || !strings.HasSuffix(fn, ")") {
		return fn
	}
	if i := strings.LastIndexByte(fn, '('); i > 0 {
		return fn[:i]
	}
	return fn
}
