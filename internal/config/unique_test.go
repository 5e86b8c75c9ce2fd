package config

import (
	"fmt"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

func TestUniqueOfHandlers(t *testing.T) {
	f, err := Parse("troupe.yml", []byte("handlers: {A: {builtin: noop, unique: true}, B: {builtin: noop}, C: {builtin: noop, unique: {until: start}}}"), "")
	harness.OK(t, err)
	s := Settings{File: *f}
	harness.Equal(t, "unique classes", fmt.Sprint(s.Unique()), "map[A:{[] done 0s false} C:{[] start 0s false}]")
	for text, want := range map[string]string{
		"unique: 3":               `handlers.A.unique is "3", expected ` + wantUnique,
		"unique: {until: never}":  `handlers.A.unique.until is "never", expected one of done, start, period`,
		"unique: {until: period}": "handlers.A.unique.for is missing, expected the period",
		"unique: {for: 0}":        `handlers.A.unique.for is "0"`,
		"unique: {by: 0}":         `handlers.A.unique.by is "0", expected a list of places`,
		"unique: {by: []}":        "expected a list of places",
		"unique: {by: [[0]]}":     "handlers.A.unique.by[0]",
		"unique: {unti: start}":   "handlers.A.unique.unti is no known key, expected until",
	} {
		_, err := Parse("troupe.yml", []byte("handlers: {A: {builtin: noop, "+text+"}}"), "")
		harness.ErrorHas(t, text, err, want)
	}
}
