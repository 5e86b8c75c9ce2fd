package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long a tab waits for what has to come.
const patience = time.Minute

// tab is one of the browser, with cookies and storage of its own.
type tab struct {
	t    testing.TB
	base string
	ctx  context.Context //nolint:containedctx // of chromedp, which keeps the tab in it

	mu    sync.Mutex
	wrong []string // CSP reports, console errors, exceptions, failed requests
}

// open opens a tab for the pages at an address.
func open(t testing.TB, base string) *tab {
	t.Helper()
	b := &tab{t: t, base: base}
	ctx, stop := chromedp.NewContext(browser(t), chromedp.WithNewBrowserContext(), chromedp.WithListener(b.listen))
	t.Cleanup(stop)
	b.ctx = ctx
	if err := chromedp.Do(ctx); err != nil { // the first one makes the tab, which ends with its context
		t.Fatalf("browser: %v", err)
	}
	b.do(command(audits.Enable, cdp.Empty{}), command(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}), b.prefer("light"), b.size(1280, 900))
	return b
}

func (b *tab) listen(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = "exception: " + (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error()
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			text = fmt.Sprintf("console %s: %v", e.Type, e.Args)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Source == log.EntrySourceSecurity {
			text = fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *audits.EventIssueAdded:
		details, _ := json.Marshal(e.Issue.Details)
		text = fmt.Sprintf("issue %s: %s", e.Issue.Code, details)
	}
	if text != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wrong = append(b.wrong, text)
	}
}

// troubles returns what went wrong since the last call.
func (b *tab) troubles() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	wrong := b.wrong
	b.wrong = nil
	return wrong
}

// action is what a tab does.
type action = chromedp.Action[chromedp.Void]

// command is one of the protocol.
func command[P, R any](c cdp.Command[P, R], params P) action {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func (b *tab) do(actions ...action) {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("browser: %v", err)
	}
}

// run evaluates JavaScript in the page of a tab, and awaits it if it is a promise.
func run[T any](b *tab, js string) T {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.300s: %v", js, err)
	}
	return v
}

// prefer sets the theme of the system, light or dark, without the fading between colors.
func (b *tab) prefer(theme string) action {
	return command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

// size sets that of the window, in pixels; a narrow one is that of a phone.
func (b *tab) size(wide, high int64) action {
	return command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: wide, Height: high, DeviceScaleFactor: 1, Mobile: wide < 500})
}

// visit opens a page and waits until it is there. It returns the status of the answer.
func (b *tab) visit(path string) int64 {
	b.t.Helper()
	return b.leads(chromedp.Navigate(b.base + path))
}

// leads does what leads to another page, and waits until that is there.
func (b *tab) leads(actions ...action) int64 {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	answer, err := chromedp.RunResponse(ctx, actions...)
	if err != nil {
		b.t.Fatalf("browser: %v\n%s", err, b.text())
	}
	return answer.Status
}

// click clicks on what leads to another page, as people do: with the mouse, on what is visible.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.leads(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// button clicks on the button or link that says so, within what a selector names, and follows it.
func (b *tab) button(within, says string) {
	b.t.Helper()
	b.leads(b.press(within, says))
}

// press clicks on the button, link or summary that says so, within what an XPath names.
func (b *tab) press(within, says string) action {
	return chromedp.Click(chromedp.Search(fmt.Sprintf(`(//%s//*[self::button or self::a or self::summary][normalize-space()=%q])[1]`, within, says)), chromedp.NodeVisible)
}

// keys types: a text, or keys of package kb.
func (b *tab) keys(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		b.do(chromedp.KeyEvent(k))
	}
}

// tabTo presses the tab key until the element of a selector has the focus; back goes the other way.
func (b *tab) tabTo(selector string) { b.t.Helper(); b.walk(selector) }
func (b *tab) back(selector string) {
	b.t.Helper()
	b.walk(selector, chromedp.KeyModifiers(chromedp.ModifierShift))
}

func (b *tab) walk(selector string, with ...chromedp.KeyOption) {
	b.t.Helper()
	for range 100 {
		if b.is(fmt.Sprintf(`document.activeElement.matches(%q)`, selector)) {
			return
		}
		b.do(chromedp.KeyEvent(kb.Tab, with...))
	}
	b.t.Fatalf("the tab key does not lead to %s, but to %s", selector, b.eval(`document.activeElement.outerHTML`))
}

// eval evaluates JavaScript in the page, and returns the result as JSON.
func (b *tab) eval(js string) string { b.t.Helper(); return string(run[json.RawMessage](b, js)) }

func (b *tab) is(js string) bool { b.t.Helper(); return run[bool](b, "Boolean("+js+")") }

// text is what stands on the page.
func (b *tab) text() string { b.t.Helper(); return run[string](b, `document.body.innerText`) }

// says fails unless all of it stands on the page.
func (b *tab) says(parts ...string) {
	b.t.Helper()
	text := b.text()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			b.t.Errorf("the page does not say %q:\n%s", part, text)
		}
	}
}

// await waits until an expression is true in the page, which is asked at each of its changes, and
// returns the time at which it was.
func (b *tab) await(js string) time.Time {
	b.t.Helper()
	return time.UnixMilli(run[int64](b, fmt.Sprintf(`new Promise((done, fail) => {
		const look = () => { if (%s) { watch.disconnect(); done(Date.now()); } };
		const watch = new MutationObserver(look);
		watch.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
		setTimeout(() => fail(new Error("not within a minute; the page says:\n" + document.body.innerText)), %d);
		look();
	})`, js, (patience-time.Second).Milliseconds())))
}

// awaitText waits until the page says all of it, without being loaded again.
func (b *tab) awaitText(parts ...string) time.Time {
	b.t.Helper()
	text, _ := json.Marshal(parts)
	return b.await(fmt.Sprintf(`%s.every((part) => document.body.innerText.includes(part))`, text))
}
