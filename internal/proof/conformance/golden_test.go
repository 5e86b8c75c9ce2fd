package conformance

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// golden returns the bytes of a file that no version of troupe has made; see
// testdata/README.md.
func golden(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(text), "\n")
}

var (
	floatSeconds = regexp.MustCompile(`^\d{10}\.\d{1,7}$`)
	intMillis    = regexp.MustCompile(`^\d{13}$`)
	intSeconds   = regexp.MustCompile(`^\d{10}$`)
	jidForm      = regexp.MustCompile(`^[0-9a-f]{24}$`)
)

// form names the way in which a time is written.
func form(text string) string {
	switch {
	case floatSeconds.MatchString(text):
		return "seconds with a fraction"
	case intMillis.MatchString(text):
		return "milliseconds"
	case intSeconds.MatchString(text):
		return "whole seconds"
	}
	return text
}

// shape returns a job with the named times replaced by their form and the other
// bytes as they are.
func shape(t testing.TB, raw string, times ...string) string {
	t.Helper()
	p := payload(t, raw)
	for _, key := range times {
		if text, ok := p.Get(key); ok {
			p.SetString(key, form(string(text)))
		}
	}
	return string(p.Bytes())
}

// unfailed is a job as it stood in its queue before the failure whose fields it has.
func unfailed(t testing.TB, raw string) string {
	t.Helper()
	p := payload(t, raw)
	for _, key := range []string{"error_message", "error_class", "failed_at", "retried_at", "retry_count"} {
		p.Delete(key)
	}
	return string(p.Bytes())
}

// seconds8 reads a time as Sidekiq 8 does: an integer is milliseconds, a
// fraction makes it seconds. 6 and 7 take any number for seconds.
const seconds8 = `->(t) { t.is_a?(Integer) ? t / 1000.0 : t }`
