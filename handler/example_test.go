package handler_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/handler"
)

var report = func() *troupe.Payload {
	p, err := troupe.ParsePayload([]byte(`{"class":"Report","args":["may"],"jid":"5f0c","queue":"default"}`))
	if err != nil {
		panic(err)
	}
	return p
}()

// A program per job. Its exit status decides.
func ExampleNewExec() {
	h, err := handler.NewExec(handler.ExecOptions{Command: []string{"/bin/sh", "-c", "echo no such month >&2; exit 3"}})
	if err != nil {
		panic(err)
	}
	var r troupe.Registry
	troupe.HandleClass(&r, "Report", h) // for a daemon; here it is called as that does
	err = h.Perform(context.Background(), report)
	if failed, ok := errors.AsType[*handler.ExecError](err); ok {
		fmt.Println(failed.Status, "-", failed.Stderr)
	}
	// Output: exit status 3 - no such month
}

// A request per job. The status of the answer decides.
func ExampleNewHTTP() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no room for "+r.Header.Get("Troupe-Class"), http.StatusInternalServerError)
	}))
	defer server.Close()
	h, err := handler.NewHTTP(handler.HTTPOptions{URL: server.URL})
	if err != nil {
		panic(err)
	}
	err = h.Perform(context.Background(), report)
	if failed, ok := errors.AsType[*handler.HTTPError](err); ok {
		fmt.Println(failed.Status, failed.Text)
	}
	// Output: 500 no room for Report
}

// A handler for trials.
func ExampleBuiltin() {
	h, err := handler.Builtin("echo", os.Stdout)
	if err != nil {
		panic(err)
	}
	fmt.Println(h.Perform(context.Background(), report))
	// Output:
	// ["may"]
	// <nil>
}
