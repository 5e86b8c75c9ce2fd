package browser

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/web"
)

const prefix = "/ops/jobs"

// Under a prefix that is kept, or stripped by the program or a proxy, pages, styles, the script,
// actions and live changes work.
func TestPrefix(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct {
		options web.Options
		mount   func(http.Handler) http.Handler
	}{
		"kept":                    {web.Options{BasePath: prefix}, func(h http.Handler) http.Handler { return h }},
		"stripped by a program":   {web.Options{}, func(h http.Handler) http.Handler { return http.StripPrefix(prefix, h) }},
		"stripped by a proxy":     {web.Options{TrustProxies: []string{"127.0.0.1"}}, func(h http.Handler) http.Handler { return proxy(t, h) }},
		"stripped, and it is set": {web.Options{BasePath: prefix}, func(h http.Handler) http.Handler { return http.StripPrefix(prefix, h) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			s.ruby(fourFailures)
			mux := http.NewServeMux()
			address := s.serve(how.options, func(h http.Handler) http.Handler { mux.Handle(prefix+"/", how.mount(h)); return mux })
			b := open(t, address)
			b.visit(prefix + "/")
			b.click(`nav a[href$="/retries"]`)
			if !b.is(`location.pathname === "` + prefix + `/retries" && getComputedStyle(document.querySelector("table.cards")).borderCollapse === "separate" && !document.querySelector("[data-theme-toggle]").hidden`) {
				t.Errorf("style, script or the address: %s", b.eval(`location.href`))
			}
			s.ruby(`failed("late", "Orders::Confirmation", [1], "SocketError", "no such host", due: 5)`)
			b.awaitText("Orders::Confirmation") // live
			b.do(chromedp.Click(chromedp.CSS(`input[aria-label="Choose Webhooks::Deliver failure-0"]`)))
			b.button("form[@id='tick']", "Retry")
			b.says("1 job retried.")
			if at := run[string](b, `location.pathname`); at != prefix+"/retries" || len(s.entries(keys.Retry, "")) != 4 {
				t.Errorf("the action leads to %s", at)
			}
			if wrong := b.troubles(); len(wrong) > 0 {
				t.Error(strings.Join(wrong, "\n"))
			}
		})
	}
}

// proxy is one in front of a server of its own. It takes the prefix away, and says so.
func proxy(t *testing.T, h http.Handler) http.Handler {
	behind := httptest.NewServer(h)
	t.Cleanup(behind.Close)
	to, err := url.Parse(behind.URL)
	if err != nil {
		t.Fatal(err)
	}
	return http.StripPrefix(prefix, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.SetXForwarded()
		r.Out.Header.Set("X-Forwarded-Prefix", prefix)
	}})
}

// An integer that no float64 holds is shown digit by digit, and goes back into the queue so.
func TestBigInteger(t *testing.T) {
	t.Parallel()
	const digits = "12345678901234567890"
	s := start(t)
	s.ruby(`
		failed("big", "Payments::Capture", [12345678901234567890, {"id" => 12345678901234567890}], "SocketError", "no such host", due: 1000, account: 12345678901234567890)
		push("waits", "Payments::Capture", [12345678901234567890], queue: "critical")
		push("later", "Payments::Capture", [12345678901234567890], at: Time.now.to_f + 900)
		died("gone", "Payments::Capture", [12345678901234567890], "SocketError", "no such host")`)
	b := open(t, s.base)
	for _, path := range []string{"/retries", "/queues/critical", "/scheduled", "/dead", "/jobs/big", "/search?q=Payments", "/retries/all?do=retry"} {
		b.visit(path)
		b.says("[" + digits)
		at := path + ".json"
		if page, query, ok := strings.Cut(path, "?"); ok {
			at = page + ".json?" + query
		}
		b.visit(at)
		b.says(digits)
	}
	b.visit("/jobs/big")
	b.says("account\n" + digits)
	b.button("main", "Retry")
	var job struct{ Args, Account json.RawMessage }
	if err := json.Unmarshal([]byte(s.rdb.LIndex(t.Context(), keys.Queue("default"), 0).Val()), &job); err != nil || string(job.Args) != `[`+digits+`,{"id":`+digits+`}]` || string(job.Account) != digits {
		t.Errorf("in its queue: %v, %s, %s", err, job.Args, job.Account)
	}
}
