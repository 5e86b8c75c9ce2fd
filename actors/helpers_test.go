package actors_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/testkit"
)

var ctx = context.Background()

// script is a job whose first argument picks its fate.
type script struct {
	mu      sync.Mutex
	runs    map[string]int // by jid
	ends    map[string]int
	at      int // running now
	most    int
	release chan struct{} // "wait" and "deaf" jobs end when it is closed
	causes  []error       // why contexts were cancelled

	onCancel func() // called by a "wait" job whose context was cancelled
}

func newScript() *script {
	return &script{runs: map[string]int{}, ends: map[string]int{}, release: make(chan struct{})}
}

var errScripted = errors.New("scripted failure")

func (s *script) Perform(ctx context.Context, p *troupe.Payload) error {
	s.mu.Lock()
	s.runs[p.JID()]++
	s.at++
	s.most = max(s.most, s.at)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.at--
		s.ends[p.JID()]++
		s.mu.Unlock()
	}()
	var args []any
	if err := json.Unmarshal(p.Args(), &args); err != nil {
		return err
	}
	switch args[0] {
	case "fail":
		return errScripted
	case "panic":
		panic("scripted panic")
	case "goexit":
		runtime.Goexit()
	case "discard":
		return troupe.Discard(errScripted)
	case "kill":
		return troupe.Kill(errScripted)
	case "slow":
		time.Sleep(time.Duration(args[1].(float64)) * time.Millisecond)
	case "wait": // obeys its context
		select {
		case <-s.release:
		case <-ctx.Done():
			if s.onCancel != nil {
				s.onCancel()
			}
			s.mu.Lock()
			s.causes = append(s.causes, context.Cause(ctx))
			s.mu.Unlock()
			return ctx.Err()
		}
	case "deaf": // does not
		<-s.release
	}
	return nil
}

func (s *script) registry() *troupe.Registry {
	var r troupe.Registry
	troupe.HandleClass(&r, "Scripted", s)
	return &r
}

func (s *script) started(jid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[jid] > 0
}

func (s *script) counts() (runs map[string]int, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.runs), s.most
}

// inProgress counts what stands in private places.
func inProgress(t *testing.T, rdb redis.UniversalClient) int {
	t.Helper()
	n := 0
	keys, err := rdb.Keys(ctx, "troupe:wip:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		l, err := rdb.HLen(ctx, k).Result()
		if err != nil {
			t.Fatal(err)
		}
		n += int(l)
	}
	return n
}

func size(t *testing.T, rdb redis.UniversalClient, key string) int {
	t.Helper()
	kind, err := rdb.Type(ctx, key).Result()
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	switch kind {
	case "list":
		n, err = rdb.LLen(ctx, key).Result()
	case "zset":
		n, err = rdb.ZCard(ctx, key).Result()
	case "set":
		n, err = rdb.SCard(ctx, key).Result()
	}
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// push pushes n scripted jobs with these args and returns their jids.
func push(k *testkit.Kit, n int, args ...any) []string {
	var jids []string
	for range n {
		jids = append(jids, k.PushClass("Scripted", args))
	}
	return jids
}

// lines is a log that can be searched.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.b.Bytes(), []byte(text))
}
