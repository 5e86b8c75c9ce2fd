package browser

import (
	_ "embed"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// shown is a page of the dashboard as the shop has it.
type shown struct {
	name   string // of its screenshots
	route  string // with * for any one segment
	path   string
	status int64
	lone   string // why no page of the shop leads to it; "" if one does
	plain  bool   // it asks a question like another one, and has no screenshot
}

func (s *shop) pages() []shown {
	storm := "/tree/" + crew[2].id
	return []shown{
		{name: "overview", route: "/", path: "/"},
		{name: "queues", route: "/queues", path: "/queues"},
		{name: "queue", route: "/queues/*", path: "/queues/mailers"},
		{name: "queue-clear", route: "/queues/*/clear", path: "/queues/mailers/clear", plain: true},
		{name: "running", route: "/running", path: "/running"},
		{name: "job", route: "/jobs/*", path: "/jobs/" + s.job},
		{name: "retries", route: "/retries", path: "/retries"},
		{name: "queue-all", route: "/queues/*/all", path: "/queues/mailers/all?do=move", plain: true},
		{name: "retries-all", route: "/retries/all", path: "/retries/all?do=kill&class=Webhooks::Deliver"},
		{name: "scheduled", route: "/scheduled", path: "/scheduled"},
		{name: "scheduled-all", route: "/scheduled/all", path: "/scheduled/all?do=reschedule", plain: true},
		{name: "dead", route: "/dead", path: "/dead"},
		{name: "dead-all", route: "/dead/all", path: "/dead/all?do=retry", plain: true},
		{name: "periodic", route: "/periodic", path: "/periodic"},
		{name: "periodic-job", route: "/periodic/*", path: "/periodic/reports.monthly?namespace=default"},
		{name: "periodic-delete", route: "/periodic/*/delete", path: "/periodic/reports.monthly/delete?namespace=default", plain: true},
		{name: "locks", route: "/locks", path: "/locks"},
		{name: "locks-free", route: "/locks/free", path: "/locks/free?lock=" + shopLock + "&holder=" + s.job, plain: true},
		{name: "batches", route: "/batches", path: "/batches"},
		{name: "batch", route: "/batches/*", path: "/batches/" + shopBatch},
		{name: "batch-close", route: "/batches/*/close", path: "/batches/" + shopBatch + "/close", plain: true},
		{name: "batch-count-out", route: "/batches/*/count-out", path: "/batches/" + shopBatch + "/count-out", plain: true},
		{name: "batch-cancel", route: "/batches/*/cancel", path: "/batches/" + shopBatch + "/cancel", plain: true},
		{name: "limits", route: "/limits", path: "/limits"},
		{name: "limits-held", route: "/limits/held", path: "/limits/held?limit=stripe"},
		{name: "limits-release", route: "/limits/release", path: "/limits/release?limit=stripe", plain: true},
		{name: "limits-held-all", route: "/limits/held/all", path: "/limits/held/all?limit=stripe&do=release"},
		{name: "limits-rest", route: "/limits/rest", path: "/limits/rest?limit=stripe"},
		{name: "limits-set", route: "/limits/set", path: "/limits/set?limit=stripe"},
		{name: "limits-reset", route: "/limits/reset", path: "/limits/reset?limit=stripe", plain: true},
		{name: "search", route: "/search", path: "/search?q=webhooks"},
		{name: "tasks", route: "/tasks", path: "/tasks"},
		{name: "task", route: "/tasks/*", path: s.task},
		{name: "processes", route: "/processes", path: "/processes"},
		{name: "processes-quiet", route: "/processes/quiet", path: "/processes/quiet", plain: true},
		{name: "processes-stop", route: "/processes/stop", path: "/processes/stop", plain: true},
		{name: "process-quiet", route: "/processes/*/quiet", path: "/processes/" + crew[0].id + "/quiet", plain: true},
		{name: "process-stop", route: "/processes/*/stop", path: "/processes/" + crew[0].id + "/stop"},
		{name: "tree", route: "/tree", path: "/tree"},
		{name: "tree-process", route: "/tree/*", path: storm},
		{name: "classes", route: "/classes", path: "/classes"},
		{name: "class", route: "/classes/*", path: "/classes/Webhooks::Deliver"},
		{name: "events", route: "/events", path: "/events"},
		{name: "orphans", route: "/orphans", path: "/orphans"},
		{name: "orphans-rescue", route: "/orphans/rescue", path: "/orphans/rescue", lone: "processes of troupe live, which put jobs back themselves", plain: true},
		{name: "audit", route: "/audit", path: "/audit"},
		{name: "login", path: s.users + "/login", lone: "nobody has to sign in"},
		{name: "fault", path: "/jobs", status: http.StatusNotFound, lone: "there is no such page", plain: true},
	}
}

// answers are addresses that are no pages.
var answers = []string{"/retries/export", "/scheduled/export", "/dead/export"}

//go:embed testdata/axe/axe.min.js
var axe string

// Every page is as it has to be, with the data of the shop.
func TestPages(t *testing.T) {
	t.Parallel()
	s := openShop(t, 0)
	pages := s.pages()
	t.Run("links lead to pages, and to every page", func(t *testing.T) { s.crawl(t, pages) })
	t.Run("no CSP report, no console error, no axe violation, light and dark", func(t *testing.T) {
		b := open(t, s.base)
		for _, p := range pages {
			t.Run(p.name, func(t *testing.T) { b.in(t).sound(p) })
		}
	})
	t.Run("no sideways scroll at 320 px", func(t *testing.T) {
		b := open(t, s.base)
		b.do(b.size(320, 640))
		for _, p := range pages {
			b.show(p)
			if wide := b.eval(`document.scrollingElement.scrollWidth`); wide != "320" {
				t.Errorf("%s is %s px wide: %s", p.path, wide, b.eval(`[...document.querySelectorAll("*")].filter((el) => el.getBoundingClientRect().right > 320 && !el.closest(".scroll, .side, .sr, pre, thead")).map((el) => el.outerHTML.slice(0, 160))`))
			}
		}
	})
	t.Run("at 320 px no table of a card has to be scrolled, and no field is cut", func(t *testing.T) {
		b := open(t, s.base)
		b.do(b.size(320, 640))
		for _, p := range pages {
			b.show(p)
			const cut = `[...document.querySelectorAll("main .scroll, main input, main select, main .jid, main .filter > *")].filter((el) => el.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true }) && !el.closest("details:not([open])") && !el.querySelector(".heat") && !el.closest(".chart, .sr") && (el.matches(".scroll") ? el.scrollWidth > el.clientWidth : el.getBoundingClientRect().right > 320)).map((el) => el.outerHTML.slice(0, 300)).join("\n")`
			if found := run[string](b, cut); found != "" {
				t.Errorf("%s: %s", p.path, found)
			}
		}
	})
	t.Run("times have the viewer's zone beside UTC", func(t *testing.T) {
		b := open(t, s.base)
		b.do(command(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"}))
		for _, path := range []string{"/retries", "/"} { // of which the second is renewed
			b.visit(path)
			for _, wait := range []string{"", `new Promise((done) => document.addEventListener("troupe:renewed", () => setTimeout(done, 0, 1), { once: true }))`} {
				if wait != "" && path == "/" {
					b.eval(wait)
				}
				if lacks := run[string](b, `[...document.querySelectorAll("time")].filter((el) => !/GMT\+5:30/.test(el.title) || el.title.split("GMT").length !== 2).map((el) => el.outerHTML).join("\n") + (document.querySelector("time") ? "" : "no time")`); lacks != "" {
					t.Errorf("%s: %s", path, lacks)
				}
			}
		}
	})
	t.Run("without JavaScript nothing is missing", func(t *testing.T) {
		const parts = `[...document.querySelectorAll("h1, h2, main a, main button, main summary, main th[scope=col], main label, main dt")].filter((el) => !el.closest("tbody")).map((el) => el.textContent.trim().replace(/[\d.,]+( (ms|s|m|h|d|kB|MB|GB|B))?/g, "#")).join("; ")`
		with, without := open(t, s.base), open(t, s.base)
		without.do(script(false))
		for _, p := range pages {
			a, b := "", "-"
			for n := 0; n < 5 && a != b; n++ { // a page may change between the two
				with.show(p)
				without.show(p)
				a, b = with.eval(parts), without.eval(parts)
			}
			if a != b || len(a) < 10 {
				t.Errorf("%s: with JavaScript there is\n%s\nand without\n%s", p.path, a, b)
			}
		}
	})
	t.Run("the button for the theme does what the system does", func(t *testing.T) {
		b := open(t, s.base)
		const colors = `JSON.stringify([...document.querySelectorAll("body, .top, .tile, .muted, .sign, a, th, input, i, .s0")].map((el) => { const c = getComputedStyle(el); return [c.color, c.backgroundColor, c.borderTopColor, c.fill]; }))`
		toggle := chromedp.Click(chromedp.CSS("[data-theme-toggle]"))
		b.visit(s.task) // it is not renewed
		light := b.eval(colors)
		b.do(toggle)
		chosen := b.eval(colors)
		b.visit("/queues")
		kept := b.is(`document.documentElement.dataset.theme === "dark" && document.querySelector("[data-theme-toggle]").textContent === "Light"`)
		b.do(toggle, b.prefer("dark"))
		b.visit(s.task)
		back := b.eval(colors)
		b.eval(`localStorage.clear(), 1`)
		b.visit(s.task)
		dark := b.eval(colors)
		if light == dark || chosen != dark || back != light || !kept {
			t.Errorf("light and dark differ: %v; the chosen dark is that of the system: %v; the chosen light is: %v; it is kept: %v", light != dark, chosen == dark, back == light, kept)
		}
	})
}

// What the test of pages looks for would be seen.
func TestTroubleIsSeen(t *testing.T) {
	t.Parallel()
	s := start(t)
	for js, want := range map[string]string{
		`document.body.setAttribute("style", "color: red"), 1`:                                   "ContentSecurityPolicy",
		`new Promise((done) => { setTimeout(() => { setTimeout(done, 0, 1); nothing(); }, 0) })`: "nothing is not defined",
		`fetch("/nothing").then(() => 1)`:                                                        "404",
	} {
		b := open(t, s.base)
		b.visit("/")
		b.eval(js)
		if got := strings.Join(b.troubles(), "\n"); !strings.Contains(got, want) {
			t.Errorf("after %s there is %q", js, got)
		}
	}
	b := open(t, s.base)
	b.visit("/")
	// not within main, which the page renews
	b.eval(`document.querySelector("header").append(document.createElement("button")), 1`)
	if got := strings.Join(b.axe(false), "\n"); !strings.Contains(got, "button-name") {
		t.Errorf("a button without a name: %q", got)
	}
}

// in has a tab fail another test.
func (b *tab) in(t testing.TB) *tab { b.t = t; return b }

// show opens a page, of another address if its path has one.
func (b *tab) show(p shown) {
	b.t.Helper()
	at := b.base + p.path
	if strings.HasPrefix(p.path, "http") {
		at = p.path
	}
	if status := b.leads(chromedp.Navigate(at)); status != max(p.status, http.StatusOK) && (p.status != 0 || status != http.StatusOK) {
		b.t.Fatalf("%s: %d", p.path, status)
	}
}

// sound checks a page in both themes. The policy is in force all the time: axe, which comes from
// outside of the page, is not subject to it, and what it finds counts after what the page itself does.
func (b *tab) sound(p shown) {
	b.t.Helper()
	b.do(b.prefer("light"))
	b.troubles()
	b.show(p)
	for _, theme := range []string{"light", "dark"} {
		b.do(b.prefer(theme))
		wrong := slices.DeleteFunc(b.troubles(), func(text string) bool { return p.status != 0 && strings.Contains(text, fmt.Sprint(p.status)) })
		if len(wrong) > 0 {
			b.t.Errorf("%s, %s: %s", p.path, theme, strings.Join(wrong, "\n"))
		}
		for _, v := range b.axe(theme == "dark") {
			b.t.Errorf("%s, %s: %s", p.path, theme, v)
		}
		b.troubles()
	}
}

// axe returns what WCAG AA and good practice forbid on a page, as axe finds it: all of it, or of colors only.
func (b *tab) axe(colors bool) (violations []string) {
	b.t.Helper()
	type found struct {
		ID, Help string
		Nodes    []struct{ HTML, Why string }
	}
	b.is("window.axe || (() => {" + axe + "})() || window.axe")
	for _, v := range run[[]found](b, `axe.run(document, { resultTypes: ["violations"]`+map[bool]string{true: `, runOnly: ["color-contrast", "link-in-text-block"]`}[colors]+` }).then((r) => r.violations.map((v) => ({ ID: v.id, Help: v.help, Nodes: v.nodes.map((n) => ({ HTML: n.html, Why: n.failureSummary })) })))`) {
		text := v.ID + ": " + v.Help
		for _, n := range v.Nodes[:min(len(v.Nodes), 3)] {
			text += fmt.Sprintf("\n\t%.300s\n\t%s", n.HTML, n.Why)
		}
		violations = append(violations, text)
	}
	return violations
}

var href = regexp.MustCompile(`(?:href|formaction)="([^"]+)"|<form[^>]* action="([^"]+)"`)

// crawl follows all links from the first page on: each leads to something, and to a page of the list.
func (s *shop) crawl(t *testing.T, pages []shown) {
	routes, linked, seen := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, p := range pages {
		routes[p.route] = true
	}
	routeOf := func(path string) string {
		for route := range routes {
			parts, got := strings.Split(route, "/"), strings.Split(path, "/")
			if route == path || len(parts) == len(got) && !routes[path] && !slices.ContainsFunc(parts, func(p string) bool { i := slices.Index(parts, p); return p != "*" && p != got[i] }) {
				return route
			}
		}
		return ""
	}
	count := map[string]int{}
	todo := []string{"/"}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		u, err := url.Parse(at)
		if err != nil {
			t.Errorf("the link %q: %v", at, err)
			continue
		}
		route := routeOf(u.Path)
		if route != "" {
			linked[route] = true
		}
		kind := route + "?" + strings.Join(slices.Sorted(maps.Keys(u.Query())), "&")
		if count[kind]++; count[kind] > 3 {
			continue // such a page was looked at
		}
		status, text, _ := s.send(http.MethodGet, at, nil)
		switch {
		case strings.HasPrefix(u.Path, "/static/") || strings.HasSuffix(u.Path, ".json") || slices.Contains(answers, u.Path) || u.Path == "/live":
		case route == "":
			t.Errorf("there is a link to %s, which is not in the list of pages", at)
		}
		if status != http.StatusOK {
			t.Errorf("a link leads to %s: %d", at, status)
		}
		if strings.HasSuffix(u.Path, ".json") || !strings.Contains(text, "<html") {
			continue
		}
		for _, m := range href.FindAllStringSubmatch(text, -1) {
			next := html.UnescapeString(m[1] + m[2])
			if strings.Contains(m[0], `method="post"`) || strings.HasPrefix(next, "#") {
				continue
			}
			if !strings.HasPrefix(next, "/") {
				t.Errorf("%s has a link to %s", at, next)
				continue
			}
			if !seen[next] {
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
	for _, p := range pages {
		if linked[p.route] != (p.lone == "") {
			t.Errorf("%s is linked: %v; it has none because %q", p.route, linked[p.route], p.lone)
		}
	}
	if len(seen) < 100 {
		t.Errorf("only %d links were found", len(seen))
	}
}
