package ops

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
	"github.com/troupehq/troupe/testkit/script"
)

// get gets a path of h, decodes the reply into v, and returns its code.
func get(t *testing.T, h http.Handler, path string, v any) int {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	if v != nil {
		if err := json.Unmarshal(w.Body.Bytes(), v); err != nil || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v, %v, %s", path, err, w.Header(), w.Body)
		}
	}
	return w.Code
}

// probes are the codes of the reasons of /startupz, /livez and /readyz.
func probes(t *testing.T, h http.Handler) (all [3]string) {
	t.Helper()
	for i, path := range []string{"/startupz", "/livez", "/readyz"} {
		var a answer
		code := get(t, h, path, &a)
		var codes []string
		for _, why := range a.Reasons {
			codes = append(codes, why.Code)
		}
		if ok := len(codes) == 0; ok != (code == http.StatusOK) || ok != (a.Status == "ok") || a.Reasons == nil {
			t.Errorf("%s: %d, %+v", path, code, a)
		}
		all[i] = strings.Join(codes, " ")
	}
	return all
}

func expect(t *testing.T, when string, h http.Handler, want [3]string) {
	t.Helper()
	harness.Equal(t, when+": startup, live, ready", probes(t, h), want)
}

// A wedged fetcher fails /livez after a minute. Redis that is away fails /readyz after 5 s and /livez
// never, and the process ends 33 s after TERM at the latest even so.
func TestProbesOfAWedgedFetcherAndOfRedisAway(t *testing.T) {
	for _, path := range []string{"launcher/default/fetcher", "launcher/heartbeat", "launcher/default/processor-0"} {
		synctest.Test(t, func(t *testing.T) {
			s := script.New(t)
			proxy := chaos.NewProxy(t, testkit.NewMemory(t).Options())
			// no listening connection: one that reconnects holds a lock meanwhile, which stops the bubble's clock
			proxy.Add(chaos.Fault{Do: chaos.Effect{Refuse: "ERR on purpose"}, Mentions: "troupe:poller"})
			var h http.Handler
			k := testkit.Start(t, actors.Config{
				Redis: proxy.Client(), Registry: s.Registry(), Logger: zerolog.Nop(), Concurrency: 2,
				On: actors.Events{Created: []func(*actors.Daemon){func(d *actors.Daemon) {
					h = Handler(d)
					expect(t, "before the start", h, [3]string{"starting", "", "starting"})
				}}},
			})
			time.Sleep(2 * time.Second)
			expect(t, "running", h, [3]string{})
			k.Hold(path)
			time.Sleep(59 * time.Second)
			expect(t, "wedged for 59 s", h, [3]string{})
			time.Sleep(time.Second)
			expect(t, "wedged for a minute", h, [3]string{"", "actor_down", ""})
			var a answer
			if get(t, h, "/livez", &a); len(a.Reasons) != 1 || a.Reasons[0].Text != path+" has been held for 1m0s" {
				t.Errorf("%+v", a)
			}
			k.Release(path)
			time.Sleep(5 * time.Second)
			expect(t, "at work again", h, [3]string{})

			proxy.Kill()
			began := time.Now()
			for k.Health().Ready.OK() && time.Since(began) < time.Minute {
				time.Sleep(100 * time.Millisecond)
			}
			// the first to notice may be a beat
			if took := time.Since(began); took < 5*time.Second || took > 16*time.Second {
				t.Errorf("not ready %s after Redis went away", took)
			}
			expect(t, "Redis is away", h, [3]string{"", "", "redis_away"})
			time.Sleep(3 * time.Minute)
			expect(t, "Redis has been away for minutes", h, [3]string{"", "", "redis_away"})
			began = time.Now()
			report, err := k.Daemon.Stop(t.Context())
			if took := time.Since(began); err != nil || took > 33*time.Second {
				t.Errorf("the stop took %s: %v, %s", took, err, report)
			}
			expect(t, "after the end", h, [3]string{"", "", "ended"})
			proxy.Restart()
			time.Sleep(time.Minute)
		})
	}
}

// A process is as ready as the least ready of its daemons, which the reasons name.
func TestProbesOfSeveralDaemons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := testkit.Start(t, actors.Config{Logger: zerolog.Nop()})
		b := testkit.Start(t, actors.Config{Logger: zerolog.Nop(), Strategy: supervisor.OneForOne(supervisor.Spec{Intensity: -1})})
		h := Handler(a.Daemon, b.Daemon)
		time.Sleep(2 * time.Second)
		expect(t, "both run", h, [3]string{})
		a.Quiet()
		expect(t, "one is quiet", h, [3]string{"", "", "quiet"})
		b.Crash("launcher/poller", errors.New("on purpose"))
		<-b.Done()
		expect(t, "the other has given up", h, [3]string{"", "gave_up", "quiet ended"})
		var got answer
		if get(t, h, "/livez", &got); !strings.HasPrefix(got.Reasons[0].Text, b.Identity()+": the daemon has stopped by itself: ") {
			t.Errorf("%+v", got)
		}
	})
}

func TestPaths(t *testing.T) {
	d := harness.Must(actors.New(actors.Config{Redis: testkit.NewMemory(t).Client, Registry: new(troupe.Registry)}))(t)
	server := httptest.NewServer(Handler(d))
	t.Cleanup(server.Close)
	for _, c := range []struct {
		method, path string
		code         int
	}{
		{http.MethodGet, "/", 200}, {http.MethodGet, "/livez", 200}, {http.MethodHead, "/livez", 200}, {http.MethodHead, "/readyz", 503},
		{http.MethodGet, "/startupz", 503}, {http.MethodGet, "/scale.json", 200}, {http.MethodGet, "/scale.json?queue=other", 404},
		{http.MethodPost, "/livez", 405}, {http.MethodGet, "/nothing", 404}, {http.MethodGet, "/livez/more", 404},
	} {
		r := harness.Must(http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, nil))(t)
		reply := harness.Must(server.Client().Do(r))(t)
		_ = reply.Body.Close()
		if reply.StatusCode != c.code {
			t.Errorf("%s %s: %s, expected %d", c.method, c.path, reply.Status, c.code)
		}
	}
}
