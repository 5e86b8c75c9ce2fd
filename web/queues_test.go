package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// Pages of what real Ruby wrote, digit by digit and escaped.
func TestQueuesOfRuby(t *testing.T) {
	s := start(t)
	redistest.Ruby(s.t, s.url, `
Sidekiq::Client.push("class" => "A::B", "queue" => "odd <queue>", "args" => ["<script>x</script>", 123456789012345678901234567890, 1.0, nil, {"password" => "open sesame"}], "tags" => ["vip", "é"])
Sidekiq::Client.push_bulk("class" => "Many", "queue" => "many", "args" => (0...250).map { |i| [i] })`)
	page := s.get("/queues/odd%20%3Cqueue%3E")
	contains(t, "the page", page, "odd &lt;queue&gt;", "A::B", "&lt;script&gt;", "123456789012345678901234567890,1.0,null", "[masked]", ">vip<", ">é<")
	hasNot(t, "the page", page, "<script>x", "sesame")

	var many struct {
		Jobs []struct {
			Position int64
			Args     json.RawMessage
		}
	}
	var got []string
	for next, pages := "/queues/many.json", 0; next != ""; pages++ {
		var v struct {
			Data json.RawMessage
			Next string
		}
		text := s.get(next)
		if err := json.Unmarshal([]byte(text), &v); err != nil || json.Unmarshal(v.Data, &many) != nil {
			t.Fatalf("%v in %s", err, text)
		}
		for _, j := range many.Jobs {
			got = append(got, fmt.Sprintf("%d%s", j.Position, j.Args))
		}
		if next = strings.Replace(v.Next, "/many?", "/many.json?", 1); pages > 3 {
			t.Fatal("the list does not end")
		}
	}
	if len(got) != 250 || got[0] != "1[0]" || got[99] != "100[99]" || got[249] != "250[249]" {
		t.Errorf("%d jobs: %v", len(got), got)
	}
}

func TestPauseAndClear(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	seq := func(yield func([]any) bool) {
		for i := range 150 {
			if !yield([]any{i}) {
				return
			}
		}
	}
	if _, err := client.New(s.rdb).PushBulkClass(ctx, "Many", seq, client.Queue("many")); err != nil {
		t.Fatal(err)
	}
	if _, text := s.post("/queues/many/pause", url.Values{}, "Role", "operator"); !s.rdb.SIsMember(ctx, "paused", "many").Val() {
		t.Error("it is not paused")
	} else {
		contains(t, "the page after it", text, "The queue many is paused", "Unpause")
	}
	later := s.get("/queues/many")
	hasNot(t, "the page later", later, "nothing is taken from it any more") // it is said once
	contains(t, "the page later", later, `<a href="/audit?action=/queues/many/pause">by whom</a>`)
	contains(t, "who paused it", s.get("/audit?action=/queues/many/pause"), "otto", "1–1 of 1")
	_, text, _ := s.do(http.MethodGet, "/queues/many", "", "Role", "viewer")
	hasNot(t, "the page of a viewer", text, "by whom")
	contains(t, "the list", s.get("/queues"), "Unpause many")
	_, text = s.post("/queues/mnay/pause", url.Values{}, "Accept", "application/json")
	contains(t, "a queue that is not known", text, `"kind":"warning"`, "The queue mnay is paused, but nothing was ever pushed to it", `"paused":true`)
	if status, text := s.post("/queues/many/unpause", url.Values{}, "Accept", "application/json"); status != http.StatusOK || s.rdb.SIsMember(ctx, "paused", "many").Val() {
		t.Errorf("unpause: %d %s", status, text)
	} else {
		contains(t, "the JSON", text, `"kind":"ok"`, `"counts":{"paused":false}`)
	}

	ask := s.get("/queues/many/clear")
	contains(t, "the question", ask, `name="count" value="150"`, `name="typed"`, "Delete 150 jobs")
	for _, typed := range []string{"", "15"} {
		if _, text := s.post("/queues/many/clear", url.Values{"count": {"150"}, "typed": {typed}}); !strings.Contains(text, "Nothing was done") || s.rdb.LLen(ctx, "queue:many").Val() != 150 {
			t.Errorf("typed %q: %s", typed, text)
		}
	}
	if status, _ := s.post("/queues/many/clear", url.Values{}, "Accept", "application/json"); status != http.StatusBadRequest {
		t.Errorf("a program that does not confirm: %d", status)
	}
	if _, text := s.post("/queues/many/clear", url.Values{"count": {"150"}, "typed": {"150"}}); s.rdb.LLen(ctx, "queue:many").Val() != 0 {
		t.Error("it is not clear")
	} else {
		contains(t, "the page after it", text, "150 jobs of the queue many deleted.")
	}
}

// Of two operators that delete one job one has done it, and the other reads so.
func TestDeleteOneJob(t *testing.T) {
	s := start(t)
	s.fixture()
	const queue = "/queues/a%2Fb%2Ejson"
	var data struct {
		Jobs []struct{ Key, JID string }
	}
	if err := json.Unmarshal(s.data(queue+".json"), &data); err != nil || len(data.Jobs) != 3 {
		t.Fatalf("%v, %+v", err, data)
	}
	contains(t, "the row", s.get(queue), `aria-label="Delete Billing::Charge `+data.Jobs[1].JID+`…">Delete…</summary>`, `value="`+data.Jobs[1].Key+`" class="small danger">Delete from the queue`)
	hasNot(t, "the row", s.get(queue, "Role", "viewer"), "Delete from the queue")
	form := url.Values{"key": {data.Jobs[1].Key}}
	_, first := s.post(queue+"/delete", form)
	contains(t, "the first", first, data.Jobs[1].JID+" (Billing::Charge) is deleted")
	_, second := s.post(queue+"/delete", form)
	contains(t, "the second", second, "Nothing was deleted")
	harness.Equal(t, "jobs are left", s.rdb.LLen(t.Context(), "queue:a/b.json").Val(), 2)
	if status, text := s.post(queue+"/delete", url.Values{"key": {"x"}}, "Accept", "application/json"); status != http.StatusBadRequest {
		t.Errorf("without a place: %d %s", status, text)
	}
	if status, _, _ := s.do(http.MethodGet, "/queues/none", ""); status != http.StatusNotFound {
		t.Errorf("a queue that is not there: %d", status)
	}
}
