// Package retry reads the errors of handlers.
package retry

import (
	"errors"
	"io"
	"io/fs"
)

// Offend reads them in ways that need not end.
func Offend(err error) (bool, error) {
	var path *fs.PathError
	if errors.As(err, &path) { // want forbidigo use errchain
		return true, path
	}
	if other, ok := errors.AsType[*fs.PathError](err); ok { // want forbidigo use errchain
		return true, other
	}
	return errors.Is(err, io.EOF), errors.Join(err) // want forbidigo use errchain
}
