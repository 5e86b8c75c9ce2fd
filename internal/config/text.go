package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// secretText is a value that may be a credential. The file has it itself, or names
// where it is: {env: VARIABLE} or {file: PATH}; then Load fetches it. It is
// printed as its place, never as its value.
type secretText struct {
	Value string
	Env   string // name of the variable, "" for none
	File  string // path of the file, "" for none

	line int
}

const (
	wantText = "text, {env: VARIABLE} or {file: PATH}"
	maxText  = 64 << 10 // bytes of a file
)

// String says where the value comes from. It never is the value.
func (t secretText) String() string {
	switch {
	case t.Env != "":
		return "$" + t.Env
	case t.File != "":
		return "file " + t.File
	case t.Value == "":
		return "none"
	}
	return "***"
}

// GoString is String: %#v must not print the value.
func (t secretText) GoString() string { return t.String() }

// MarshalText is String as well.
func (t secretText) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// literal reports whether the file has the value itself.
func (t secretText) literal() bool { return t.Env == "" && t.File == "" && t.Value != "" }

// text reads a Text. What stands where a value belongs is never told in a fault.
func (p *parse) text(n *node, field string) secretText {
	t := secretText{line: n.line}
	switch n.kind {
	case null:
	case scalar:
		if t.Value = n.text; t.Value == "" {
			p.bad(n, field, wantText)
		}
	case list:
		p.bad(n, field, wantText)
	case mapping:
		if len(n.entries) != 1 {
			p.fault(n.line, field, fmt.Sprintf("a map with %d keys", len(n.entries)), wantText)
			return t
		}
		e := n.entries[0]
		into := map[string]*string{"env": &t.Env, "file": &t.File}[e.key]
		switch {
		case into == nil:
			p.unknown(e.line, field+"."+e.key, e.key, []string{"env", "file"})
		case e.value.kind != scalar || e.value.text == "" || strings.ContainsAny(e.value.text, "\x00\n"):
			hidden := *e.value
			hidden.text = "***" // perhaps the value itself
			p.bad(&hidden, field+"."+e.key, map[string]string{"env": "the name of a variable", "file": "the path of a file"}[e.key])
		default:
			*into = e.value.text
		}
	}
	return t
}

// resolve reads the value of t where t says it is; true if there was one to read.
func (p *parse) resolve(t *secretText, field string, getenv func(string) string) (ok bool) {
	switch {
	case t.Env != "":
		if t.Value = getenv(t.Env); t.Value == "" {
			p.fault(t.line, field+".env", strconv.Quote(clip(t.Env)), "a variable that is set and not empty")
			return false
		}
	case t.File != "":
		value, err := readText(t.File)
		if err != nil {
			p.fault(t.line, field+".file", strconv.Quote(clip(t.File)), fmt.Sprintf("a file with the value (%v)", err))
			return false
		}
		t.Value = value
	}
	return t.Env != "" || t.File != ""
}

// readText returns what is in a file, without the line break at its end.
func readText(name string) (string, error) {
	f, err := os.Open(name)
	var b []byte
	if err == nil {
		defer func() { _ = f.Close() }()
		b, err = io.ReadAll(io.LimitReader(f, maxText+1))
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return "", e.Err
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	switch {
	case err != nil:
		return "", err
	case len(b) > maxText:
		return "", fmt.Errorf("longer than %d bytes", maxText)
	case text == "":
		return "", errors.New("it is empty")
	}
	return text, nil
}
