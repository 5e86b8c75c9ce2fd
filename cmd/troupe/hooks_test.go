package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"
)

// hookSecret is what the server of hooks expects requests to be signed with.
const hookSecret = "s3cret"

// hooks starts a server that jobs are posted to. A path /STATUS/SECONDS is
// answered with that status and Retry-After, /hang not at all. It pushes what it
// got to the list posted, and the path of a request that was given up to gone.
func hooks(ts *testscript.TestScript, _ bool, args []string) {
	rdb := ts.Value("redis").(*redis.Client)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		t, sum, _ := strings.Cut(r.Header.Get("Troupe-Signature"), ",v1=")
		mac := hmac.New(sha256.New, []byte(hookSecret))
		fmt.Fprintf(mac, "%s.%s", strings.TrimPrefix(t, "t="), body)
		signed := "unsigned"
		if sum == fmt.Sprintf("%x", mac.Sum(nil)) {
			signed = "signed"
		}
		h := r.Header
		rdb.LPush(r.Context(), "posted", fmt.Sprintln(r.URL.Path, h.Get("Troupe-Jid"), h.Get("Troupe-Class"),
			h.Get("Troupe-Queue"), h.Get("Troupe-Attempt"), h.Get("X-Key"), signed, string(body)))
		status, seconds, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
		if status == "hang" {
			<-r.Context().Done()
			rdb.LPush(context.WithoutCancel(r.Context()), "gone", r.URL.Path)
			return
		}
		if seconds != "" {
			w.Header().Set("Retry-After", seconds)
		}
		code, err := strconv.Atoi(status)
		if err != nil {
			code = http.StatusNotImplemented
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "said the hook")
	}))
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.URL)
}
