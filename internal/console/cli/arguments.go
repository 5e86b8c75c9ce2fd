package cli

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/troupehq/troupe/internal/job"
)

// Arguments are those of a job, as they are typed: each is JSON if it parses, else a string.
func Arguments(typed []string) ([]any, error) {
	values := make([]any, len(typed))
	for i, arg := range typed {
		if !utf8.ValidString(arg) {
			return nil, fmt.Errorf("ARG %d is %q, expected UTF-8", i+1, arg)
		}
		value := json.RawMessage(arg)
		if !json.Valid(value) {
			text, err := job.EncodeJSON(arg)
			if err != nil {
				return nil, fmt.Errorf("encode ARG %d: %w", i+1, err)
			}
			value = text
		}
		values[i] = value
	}
	return values, nil
}
