package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/testkit"
)

// script turns JavaScript in the pages of a tab on or off.
func script(on bool) action {
	return command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
}

// reloads waits until the page, which the browser loads again by itself, says all of it.
func (b *tab) reloads(parts ...string) {
	b.t.Helper()
	testkit.Await(b.t, "the page says "+strings.Join(parts, " and "), func() bool {
		text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.body ? document.body.innerText : ""`))
		for _, part := range parts {
			if err != nil || !strings.Contains(text, part) { // an error means that the page is just going
				return false
			}
		}
		return true
	})
}

// Everything that operators do is done without JavaScript, with jobs of Ruby and processes of troupe.
func TestWithoutJavaScript(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.ruby(`
		%w[retried killed deleted kept].each_with_index { |name, i| failed(name, "Webhooks::Deliver", [name], "SocketError", "no such host", due: 1000 + i) }
		1500.times { |i| Sidekiq::DeadSet.new.kill(Sidekiq.dump_json("class" => "Legacy::Ping", "args" => [i], "jid" => jid(i), "queue" => "default"), notify_failure: false) }
		push("waits", "Imports::Supplier", [1], queue: "imports")`)
	_, id := s.daemon("worker-1")
	held, err := client.New(s.rdb).PushClass(t.Context(), "Held", []any{1}, client.Queue("held"))
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, s.base)
	b.do(script(false))
	tick := func(name string) {
		b.do(chromedp.Click(chromedp.CSS(`input[aria-label="Choose Webhooks::Deliver ` + name + `"]`)))
	}

	b.visit("/retries")
	if b.is(`!document.querySelector("[data-theme-toggle]").hidden`) {
		t.Fatal("the script of the page runs")
	}
	tick("retried")
	b.button("form[@id='tick']", "Retry")
	b.says("1 job retried.", "3 jobs, the next one due first")
	tick("killed")
	b.button("form[@id='tick']", "Kill")
	b.says("1 job killed.")
	tick("deleted")
	b.do(b.press("form[@id='tick']", "Delete…"))
	b.button("form[@id='tick']", "Delete for good")
	b.says("1 job deleted.", "kept")
	if n := s.rdb.LLen(t.Context(), keys.Queue("default")).Val(); n != 1 || len(s.entries(keys.Dead, `"killed"`)) != 1 {
		t.Errorf("%d jobs are in the queue, and the killed one is not dead", n)
	}
	if got := s.entries(keys.Retry, ""); len(got) != 1 || got[0] != "kept" {
		t.Errorf("the retry set has %v", got)
	}

	b.visit("/dead")
	b.do(b.press("main", "Retry or delete all 1,501…"))
	b.button("main", "Delete all…")
	b.says("Delete 1,501 jobs of Dead?", "This cannot be taken back", "The first 10 of them")
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=typed]"), "1501"))
	b.button("main", "Delete 1,501 jobs")
	b.reloads("1,501 of 1,501", "done")
	if n := s.rdb.ZCard(t.Context(), keys.Dead).Val(); n != 0 {
		t.Errorf("%d jobs are left", n)
	}

	b.visit("/queues")
	b.leads(chromedp.Click(chromedp.CSS(`button[aria-label="Pause imports"]`)))
	b.says("paused")
	if !s.rdb.SIsMember(t.Context(), keys.Paused, "imports").Val() {
		t.Error("it is not paused")
	}
	b.visit("/queues/imports")
	b.button("main", "Unpause")
	b.do(chromedp.Click(chromedp.CSS(`summary[aria-label="Delete Imports::Supplier waits…"]`)))
	b.button("main", "Delete from the queue")
	b.says("No job waits")

	b.visit("/running")
	b.reloadsOn("/running", held)
	b.leads(chromedp.Click(chromedp.CSS(`button[aria-label="Cancel Held ` + held + `"]`)))
	b.says("is cancelled in " + id)
	b.visit("/")
	b.do(chromedp.SendKeys(chromedp.CSS("input[type=search]"), "webhooks"))
	b.leads(chromedp.KeyEvent("\r"))
	b.says("Retries", "1 found", "kept")
	b.visit("/processes")
	b.leads(chromedp.Click(chromedp.CSS(`a[aria-label="Quiet ` + id + `"]`)))
	b.says("there is no way back but a restart")
	b.button("main", "Quiet "+id)
	b.says(id + " takes no new jobs")
	b.reloadsOn("/processes", fleet.Quiet)
	if wrong := b.troubles(); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
}

// reloadsOn opens a page again and again, until it says all of it.
func (b *tab) reloadsOn(path string, parts ...string) {
	b.t.Helper()
	testkit.Await(b.t, path+" says "+strings.Join(parts, " and "), func() bool {
		b.visit(path)
		text := b.text()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				return false
			}
		}
		return true
	})
}
