package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit"
)

// shipped is a ship that notes what it was given.
type shipped struct {
	takes time.Duration
	mu    sync.Mutex
	all   []Order
}

func (s *shipped) ship(ctx context.Context, o Order) error {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, o)
	return nil
}

func (s *shipped) orders() []Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// withKit is the service without its listener, around the daemon of a kit.
func withKit(t *testing.T, rdb redis.UniversalClient, ship *shipped, edit func(*actors.Config)) (*service, *testkit.Kit) {
	t.Helper()
	s := newService(rdb, zerolog.Nop(), ship.ship)
	cfg := s.config()
	if edit != nil {
		edit(&cfg)
	}
	k := testkit.Start(t, cfg, testkit.Strict())
	s.daemon = k.Daemon
	return s, k
}

func ask(s *service, method, path, body string) (code int, answer string) {
	w := httptest.NewRecorder()
	s.routes().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

func TestAnOrderIsTakenAndShipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ship := &shipped{takes: time.Second}
		s, k := withKit(t, testkit.NewMemory(t).Client, ship, nil)
		k.Expect(testkit.Events[event.JobDone]().Of("Shop::Fulfil").Times(1), func() {
			if code, answer := ask(s, "POST", "/orders", `{"ID": 7, "Email": "a@example.com"}`); code != http.StatusAccepted || !strings.Contains(answer, `"job"`) {
				t.Fatalf("%d %s", code, answer)
			}
		})
		if got := ship.orders(); len(got) != 1 || got[0] != (Order{7, "a@example.com"}) {
			t.Errorf("shipped %+v", got)
		}
		for _, bad := range []string{"", "{", `{"ID": 0}`, `{"ID": "x"}`} {
			if code, _ := ask(s, "POST", "/orders", bad); code != http.StatusBadRequest {
				t.Errorf("%q is answered with %d", bad, code)
			}
		}
	})
}

// An order that cannot be pushed is not taken.
func TestAnOrderWithoutRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		s, k := withKit(t, m.Client, &shipped{}, nil)
		m.SetError("MISCONF no disk")
		if code, _ := ask(s, "POST", "/orders", `{"ID": 7}`); code != http.StatusServiceUnavailable {
			t.Errorf("answered with %d", code)
		}
		m.SetError("")
		k.Await("redis is back", func() bool { return !k.Stats().RedisAway })
	})
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		s, k := withKit(t, m.Client, &shipped{}, func(cfg *actors.Config) {
			cfg.Strategy = supervisor.OneForOne(supervisor.Spec{Decide: func(f supervisor.Failure) supervisor.Directive {
				if f.Role == "rescuer" {
					return supervisor.Stop // for good: nobody restarts it
				}
				return supervisor.Restart
			}})
		})
		check := func(when string, want int, why string) {
			t.Helper()
			if code, answer := ask(s, "GET", "/health", ""); code != want || !strings.Contains(answer, why) {
				t.Errorf("%s: %d %s, want %d with %q", when, code, answer, want, why)
			}
		}
		check("at first", http.StatusOK, `"ok":true`)

		k.Expect(testkit.Restarts("launcher/poller").Times(1), func() { k.Crash("launcher/poller", errors.New("boom")) })
		time.Sleep(downTime)
		check("after a restart", http.StatusOK, `"ok":true`)

		m.SetError("LOADING Redis is loading the dataset in memory")
		k.Await("redis refuses", func() bool { return k.Stats().RedisRefuses != "" })
		check("while redis refuses", http.StatusServiceUnavailable, "redis refuses commands: it is reading its data from its disk")
		m.SetError("")
		k.Await("redis is back", func() bool { return !k.Stats().RedisAway })
		m.Kill()
		k.Await("redis is away", func() bool { return k.Stats().RedisAway })
		check("without redis", http.StatusServiceUnavailable, "redis does not answer")
		m.Restart()
		k.Await("redis is back", func() bool { return !k.Stats().RedisAway })
		check("with redis again", http.StatusOK, `"ok":true`)

		k.Expect(testkit.Events[event.ActorStopped]().At("launcher/rescuer").Times(1), func() { k.Crash("launcher/rescuer", errors.New("out of order")) })
		check("just after the end of a part", http.StatusOK, `"ok":true`)
		time.Sleep(downTime)
		check("without a part", http.StatusServiceUnavailable, "launcher/rescuer is stopped: out of order")

		k.Quiet()
		check("quiet", http.StatusServiceUnavailable, "stopping")
	})
}

// pipes is a listener without a network, for use in a bubble.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	ended chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), ended: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.ended) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// dial connects to the listener's server; an error once it is closed.
func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return mine, nil
	case <-p.ended:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// logged is a log that can be searched.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) index(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Index(l.b.String(), text)
}

// running is a service with everything, in a bubble.
func running(t *testing.T, ship *shipped) (s *service, web *http.Client, log *logged, stop context.CancelFunc, ended chan error) {
	t.Helper()
	log = new(logged)
	listener := newPipes()
	web = &http.Client{Transport: &http.Transport{DialContext: listener.dial, DisableKeepAlives: true}}
	s = newService(testkit.NewMemory(t).Client, zerolog.New(log), ship.ship)
	ctx, stop := context.WithCancel(t.Context())
	ended = make(chan error, 1)
	go func() { ended <- s.run(ctx, listener) }()
	for log.index("listening") < 0 {
		time.Sleep(time.Millisecond)
	}
	return s, web, log, stop, ended
}

func post(web *http.Client, shop string, body io.Reader) (int, error) {
	r, err := web.Post(shop+"/orders", "application/json", body)
	if err != nil {
		return 0, err
	}
	return r.StatusCode, r.Body.Close()
}

// The signal comes while a request is half read and a job runs: the request is
// answered, its order is shipped or waits in its queue, the job is finished.
func TestTheEndComesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ship := &shipped{takes: 8 * time.Second}
		s, web, log, stop, ended := running(t, ship)
		if code, err := post(web, "http://shop", strings.NewReader(`{"ID": 1}`)); code != http.StatusAccepted {
			t.Fatalf("%d %v", code, err)
		}
		body, write := io.Pipe()
		slow := make(chan int, 1)
		go func() { code, _ := post(web, "http://shop", body); slow <- code }()
		_, _ = write.Write([]byte(`{"ID": `))
		synctest.Wait()

		stop()
		synctest.Wait()
		if !s.stopping.Load() {
			t.Error("health does not know of the stop")
		}
		if _, err := post(web, "http://shop", strings.NewReader(`{"ID": 3}`)); err == nil {
			t.Error("a new request was taken")
		}
		time.Sleep(5 * time.Second)
		if log.index("no new jobs") >= 0 {
			t.Error("the daemon was stopped before the requests had ended")
		}
		_, _ = write.Write([]byte(`2}`))
		_ = write.Close()
		if code := <-slow; code != http.StatusAccepted {
			t.Errorf("the request under way was answered with %d", code)
		}
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		last := -1
		for _, line := range []string{"listening", "no more requests", "no new jobs", "no more jobs"} {
			i := log.index(line)
			if i <= last {
				t.Errorf("%q came too early or never:\n%s", line, &log.b)
			}
			last = i
		}
		waiting := s.rdb.LLen(t.Context(), "queue:orders").Val()
		if n := len(ship.orders()); n < 1 || n+int(waiting) != 2 || ship.orders()[0].ID != 1 {
			t.Errorf("shipped %v, %d orders wait", ship.orders(), waiting)
		}
	})
}

// A request that never ends does not keep the jobs from being put back in time.
func TestARequestThatHangsIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ship := &shipped{takes: time.Hour}
		s, web, log, stop, ended := running(t, ship)
		if code, err := post(web, "http://shop", strings.NewReader(`{"ID": 1}`)); code != http.StatusAccepted {
			t.Fatalf("%d %v", code, err)
		}
		body, write := io.Pipe()
		defer write.Close()
		go func() { _, _ = post(web, "http://shop", body) }()
		_, _ = write.Write([]byte(`{`))
		synctest.Wait()
		asked := time.Now()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if took := time.Since(asked); took > requestTime+25*time.Second+5*time.Second {
			t.Errorf("it took %s", took)
		}
		if log.index("cut off") < 0 || s.rdb.LLen(t.Context(), "queue:orders").Val() != 1 {
			t.Errorf("%d orders are in their queue\n%s", s.rdb.LLen(t.Context(), "queue:orders").Val(), &log.b)
		}
	})
}

// A tree that cannot go on takes the whole service down, so that somebody
// restarts it.
func TestADaemonThatGivesUpEndsTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, log, stop, ended := running(t, &shipped{})
		defer stop()
		boom := errors.New("boom")
		for range 6 {
			testkit.Crash(t, s.daemon, "launcher", boom)
			time.Sleep(time.Second)
		}
		if err := <-ended; !errors.Is(err, errGaveUp) || !errors.Is(err, boom) {
			t.Errorf("run: %v", err)
		}
		if log.index("no more requests") < 0 {
			t.Error("the server was left running")
		}
	})
}
