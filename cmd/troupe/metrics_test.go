package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// Served on an address without a host they can be had on the loopback interface, each time
// as Redis shows them, until the command ends.
func TestMetricsAreServed(t *testing.T) {
	rdb, url := redistest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	cmd := metricsCommand()
	cmd.SetArgs([]string{"--redis", url, "--listen", ":0"})
	cmd.SetErr(write)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	line := harness.Must(bufio.NewReader(read).ReadString('\n'))(t)
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/metrics`).FindString(line)
	get := func() string {
		t.Helper()
		resp := harness.Must(http.Get(address))(t)
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("status %d, %v", resp.StatusCode, err)
		}
		return string(body)
	}
	for _, want := range []string{"1", "2"} {
		rdb.SAdd(ctx, "queues", "mail")
		rdb.LPush(ctx, "queue:mail", "x")
		if text := get(); !strings.Contains(text, "\ntroupe_queue_jobs{queue=\"mail\"} "+want+"\n") {
			t.Errorf("no %s jobs in %s", want, text)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if resp, err := http.Get(address); err == nil {
		_ = resp.Body.Close()
		t.Error("still served")
	}
}

// A queue may have a name that is no text.
func TestNamesOfSidekiqAreText(t *testing.T) {
	rdb, url := redistest.New(t)
	rdb.SAdd(t.Context(), "queues", "a\xff", "a\xfe")
	var out strings.Builder
	cmd := metricsCommand()
	cmd.SetArgs([]string{"--redis", url, "--names", "sidekiq"})
	cmd.SetOut(&out)
	harness.OK(t, cmd.ExecuteContext(t.Context()))
	if n := strings.Count(out.String(), "\nsidekiq_queue_enqueued_jobs{"); n != 2 {
		t.Errorf("%d queues in\n%s", n, out.String())
	}
}
