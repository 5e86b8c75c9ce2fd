package handler

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// HTTPError is the failure of a job's request.
type HTTPError struct {
	Status int    // of the answer, 0 for none
	Text   string // the beginning of its body, at most 4 KiB; valid UTF-8
	Host   string // if there was no answer: who did not give it

	// Cause is why there was no answer: troupe.ErrJobTimeout, the cause of the
	// job's context, or what the network said; nil if there was one.
	Cause error
}

// Error returns the status with the text, or the cause with the host.
func (e *HTTPError) Error() string {
	switch {
	case e.Status == 0:
		return fmt.Sprintf("%s: %v", e.Host, e.Cause)
	case e.Text == "":
		return e.status()
	}
	return e.status() + ": " + e.Text
}

func (e *HTTPError) status() string {
	return strings.TrimSpace(strconv.Itoa(e.Status) + " " + http.StatusText(e.Status))
}

// ErrorClass returns "HTTP 503" and the like, or "no answer".
func (e *HTTPError) ErrorClass() string {
	if e.Status == 0 {
		return "no answer"
	}
	return "HTTP " + strconv.Itoa(e.Status)
}

// Unwrap returns Cause.
func (e *HTTPError) Unwrap() error { return e.Cause }
