package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

const fourFailures = `4.times { |i| failed("failure-#{i}", "Webhooks::Deliver", [i], "SocketError", "no such host", due: 1000 + i) }`

// A job is retried by the keyboard alone: by the tab key, and by the keys of the page.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.ruby(fourFailures)
	b := open(t, s.base)
	b.visit("/")
	b.tabTo(`nav a[href="/retries"]`)
	b.leads(chromedp.KeyEvent(kb.Enter))
	b.tabTo(`input[aria-label="Choose Webhooks::Deliver failure-1"]`)
	b.keys(" ")
	b.await(`document.querySelector(".ticked").textContent === "1 of 4 ticked"`)
	b.back(`form#tick button[value=retry]:not([hidden])`)
	b.leads(chromedp.KeyEvent(kb.Enter))
	b.says("1 job retried.")

	b.visit("/")
	b.keys("g")
	b.leads(chromedp.KeyEvent("r"))
	b.keys("j", "j", "x")
	b.await(`document.querySelector(".ticked").textContent === "1 of 3 ticked"`)
	b.leads(chromedp.KeyEvent("R"))
	b.says("1 job retried.")
	if got := s.entries(keys.Retry, ""); strings.Join(got, " ") != "failure-0 failure-3" {
		t.Errorf("the retry set has %v", got)
	}
	if n := s.rdb.LLen(t.Context(), keys.Queue("default")).Val(); n != 2 {
		t.Errorf("%d jobs are in the queue", n)
	}
	b.keys("?")
	b.await(`document.querySelector("dialog[open]")`)
	b.says("next and previous row", "Retry", "Kill")
	b.keys(kb.Escape)
	b.await(`!document.querySelector("dialog")`)
	if wrong := b.troubles(); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
}

// as has a tab be that of an operator.
func (b *tab) as(name string) *tab {
	b.t.Helper()
	b.visit("/")
	b.eval(fmt.Sprintf(`document.cookie = "who=%s; path=/"`, name))
	return b
}

// Of two operators that act on one entry one sees Done and the other Gone.
func TestTwoOperators(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.ruby(fourFailures)
	one, two := open(t, s.base).as("olga"), open(t, s.base).as("otto")
	for _, b := range []*tab{one, two} {
		b.visit("/retries")
		b.says(map[*tab]string{one: "olga", two: "otto"}[b])
		b.do(chromedp.Click(chromedp.CSS(`input[aria-label="Choose Webhooks::Deliver failure-2"]`)))
	}
	one.button("form[@id='tick']", "Retry")
	one.says("1 job retried.")
	two.button("form[@id='tick']", "Retry")
	two.says("1 gone: somebody was faster (failure-2). Nothing was retried.")
	if n := s.rdb.LLen(t.Context(), keys.Queue("default")).Val(); n != 1 {
		t.Errorf("%d jobs are in the queue", n)
	}
}

// What a limit holds is filtered, ticked and released, and a rest is ended, by the buttons of the pages.
func TestHeldJobs(t *testing.T) {
	t.Parallel()
	s := start(t)
	base := keys.LimitBase("", false)
	s.rdb.HSet(t.Context(), keys.Limits(base), "stripe", "1 breaker 3 600")
	for i := range 4 {
		member := fmt.Sprintf(`1795000000000000.%d ["queue:payments","","held-%d","stripe"]`, i, i) + "\n" + fmt.Sprintf(`{"class":"Billing::Charge","queue":"payments","args":[%d],"jid":"held-%d"}`, i, i)
		s.rdb.ZAdd(t.Context(), keys.Held(base, "stripe"), redis.Z{Score: float64(1795000000 + i), Member: member})
	}
	s.rdb.ZAdd(t.Context(), keys.HeldRules(base), redis.Z{Score: 4e9, Member: "stripe"})
	s.rdb.HSet(t.Context(), keys.Rest(base, "stripe"), "ends", 4000000000)
	b := open(t, s.base)
	b.visit("/limits/held?limit=stripe")
	b.says("Its breaker is open", "held-0", "held-3")
	b.do(chromedp.SendKeys(chromedp.CSS(`form.filter input[name="q"]`), "held-2"))
	b.button("form[@class='filter']", "Filter")
	b.says("1 of 4 jobs", "held-2")
	if strings.Contains(b.text(), "held-1") {
		t.Error("the filter shows another job")
	}
	b.do(chromedp.Click(chromedp.CSS(`input[aria-label="Choose Billing::Charge held-2"]`)))
	b.button("form[@id='tick']", "Release")
	b.says("1 job released.", "Nothing found")
	if got := s.rdb.LIndex(t.Context(), keys.Queue("payments"), 0).Val(); !strings.Contains(got, "held-2") {
		t.Errorf("the queue has %s", got)
	}
	b.visit("/jobs/held-3")
	b.says("Held by the limit stripe")
	b.button("form[@class='ticks']", "Kill")
	b.says("1 job killed.")
	b.visit("/limits/rest?limit=stripe&for=0")
	b.do(chromedp.SendKeys(chromedp.CSS(`input[name="reason"]`), "they are up again"))
	b.button("form[@method='post']", "End the rest")
	b.says("The rest of stripe has ended.")
	if n := s.rdb.LLen(t.Context(), keys.Queue("payments")).Val(); n != 1 { // the slot of held-2 is taken
		t.Errorf("%d jobs are in the queue", n)
	}
	if wrong := b.troubles(); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
}

// As long as a row is ticked nothing is swapped, although the server tells of changes.
func TestTickedRow(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.ruby(fourFailures)
	b := open(t, s.base)
	b.visit("/retries")
	b.eval(`window.before = document.getElementById("main"), window.heard = 0,
		new EventSource(document.body.dataset.live + "?topic=sets").addEventListener("change", () => { heard++; document.body.dataset.heard = heard; }), 1`)
	b.do(chromedp.Click(chromedp.CSS(`input[aria-label="Choose Webhooks::Deliver failure-1"]`)))
	b.eval(`document.activeElement.blur(), 1`)
	for i := range 2 { // at the second one the script of the page has had the first for long
		s.ruby(fmt.Sprintf(`failed("more-%d", "Webhooks::Deliver", [9], "SocketError", "no such host", due: 5)`, i))
		b.await(fmt.Sprintf(`heard > %d`, i))
	}
	if !b.is(`before === document.getElementById("main") && document.querySelectorAll("tbody tr").length === 4 && document.querySelector("tbody tr:nth-child(2) input").checked`) {
		t.Error("the page was swapped under a ticked row")
	}
	b.do(chromedp.Click(chromedp.CSS(`input[aria-label="Choose Webhooks::Deliver failure-1"]`)))
	b.eval(`document.activeElement.blur(), 1`)
	b.await(`before !== document.getElementById("main") && document.querySelectorAll("tbody tr").length === 6`)
}

// All that match: the number has to be typed, the task shows how far it is, and cancelled it tells what it did.
func TestBulk(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.ruby(`redis_push = 6000.times.map { |i| [2_000_000_000 + i, Sidekiq.dump_json("class" => i.odd? ? "Odd" : "Even", "args" => [i], "jid" => jid(i), "queue" => "default")] }
		Sidekiq.redis { |r| r.zadd("schedule", redis_push) }`)
	b := open(t, s.base)
	b.visit("/scheduled")
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=class]"), "Odd"))
	b.leads(chromedp.KeyEvent(kb.Enter))
	b.do(b.press("main", "Run now, kill, delete or reschedule all that match…"))
	b.button("main", "Kill all…")
	b.says("Kill 3,000 jobs of Scheduled?", `class "Odd"`)
	b.do(b.press("main", "Kill 3,000 jobs"))
	if !b.is(`location.pathname === "/scheduled/all" && document.activeElement.matches("input[name=typed]")`) {
		t.Error("the number need not be typed")
	}
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=typed]"), "3000"))
	b.button("main", "Kill 3,000 jobs")
	b.says("running")
	b.await(`document.querySelector("progress").value > 0`) // it is renewed
	b.button("main", "Cancel")
	b.awaitText("cancelled", "Cancelled by\nann")
	var task struct {
		Data struct {
			Counts struct{ Done, Gone, Stopped, Left int }
			Total  int
		}
	}
	_, text, _ := s.send(http.MethodGet, run[string](b, `location.pathname`)+".json", nil)
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		t.Fatal(err)
	}
	c, dead, left := task.Data.Counts, s.rdb.ZCard(t.Context(), keys.Dead).Val(), s.rdb.ZCard(t.Context(), keys.Schedule).Val()
	if c.Done == 0 || c.Done >= 3000 || int64(c.Done) != dead || left != 6000-dead || task.Data.Total != 3000 {
		t.Errorf("%+v; %d are dead, %d scheduled", task.Data, dead, left)
	}
	if got := run[string](b, `document.querySelector(".tile .value").textContent.replace(",", "")`); got != strconv.Itoa(c.Done) {
		t.Errorf("the page says %s, and %d are done", got, c.Done)
	}
	if n := len(s.entries(keys.Dead, `"Even"`)); n != 0 {
		t.Errorf("%d jobs that do not match were killed", n)
	}
}
