package web

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/beat"
	outcomes "github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/runs"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/web/internal/draw"
)

// mark writes a deploy as Sidekiq's Deploy.mark! does.
func (s *site) mark(at time.Time, label string) {
	at = at.UTC().Truncate(time.Minute)
	s.rdb.HSetNX(s.t.Context(), at.Format("20060102")+"-marks", at.Format(time.RFC3339), label)
}

// charted is the JSON of a page with a chart.
func (s *site) charted(path, name string) (c draw.Chart) {
	s.t.Helper()
	var charts map[string]json.RawMessage
	err := json.Unmarshal(s.data(path), &charts)
	if err == nil {
		err = json.Unmarshal(charts[name], &c)
	}
	harness.OK(s.t, err)
	return c
}

// The first page shows what ran each day although nobody looked, and the deploys.
func TestDays(t *testing.T) {
	s := start(t)
	ctx, now := t.Context(), time.Now().UTC()
	yesterday := now.AddDate(0, 0, -1)
	s.rdb.Set(ctx, "stat:processed:"+now.Format(time.DateOnly), 1234, 0)
	s.rdb.Set(ctx, "stat:processed:"+yesterday.Format(time.DateOnly), 5678, 0)
	s.rdb.Set(ctx, "stat:failed:"+yesterday.Format(time.DateOnly), 9, 0)
	s.rdb.Set(ctx, "stat:processed:"+now.AddDate(0, 0, -daysShown).Format(time.DateOnly), 77777, 0)
	s.mark(yesterday, `v1 <script>"`)
	s.mark(now.AddDate(0, 0, -daysShown-2), "long ago")
	text := s.get("/")
	contains(t, "the page", text, "a day (UTC)", "5,678", "1,234", `<title>v1 &lt;script&gt;&#34;, `, `<span class="key deploy">`, `v1 &lt;script&gt;&#34;</li>`)
	hasNot(t, "the page", text, "<script>\"", "long ago", "77,777")
	c := s.charted("/.json", "days")
	if len(c.Series) != 2 || len(c.Series[0].Points) != daysShown || c.Series[0].Points[daysShown-1].Value != 1234 || c.Series[0].Points[daysShown-2].Value != 5678 || c.Series[1].Points[daysShown-2].Value != 9 {
		t.Errorf("days: %+v", c)
	}
	if len(c.Marks) != 1 || c.Marks[0].Label != `v1 <script>"` || !c.Marks[0].At.Equal(yesterday.Truncate(time.Minute)) {
		t.Errorf("marks: %+v", c.Marks)
	}
	empty := start(t)
	hasNot(t, "a page of nothing", empty.get("/"), "a day (UTC)")
}

// The chart of a class shows the deploys of its time.
func TestDeploysOfClasses(t *testing.T) {
	s := start(t)
	m := beat.NewMetrics("a:1:b", beat.Dialect8, func() map[string]runs.Totals { return nil })
	m.CountAs("Mailer", outcomes.Done, time.Second)
	harness.OK(t, m.Flush(t.Context(), s.rdb, time.Now()))
	s.mark(time.Now().Add(-20*time.Minute), "v2")
	s.mark(time.Now().Add(-2*time.Hour), "v1")
	hour, day := s.charted("/classes/Mailer.json", "chart"), s.charted("/classes/Mailer.json?over=8h", "chart")
	for want, got := range map[string][]draw.Mark{"v2": hour.Marks, "v1v2": day.Marks} {
		labels := ""
		for _, m := range got {
			labels += m.Label
		}
		harness.Equal(t, "got the deploys", labels, want)
	}
	if text := s.get("/classes/Mailer"); !regexp.MustCompile(`<g class="deploy" data-at="[-0-9]+T[:0-9]+Z"><title>v2, `).MatchString(text) || strings.Count(text, `<g class="deploy"`) != 1 {
		t.Errorf("the page:\n%s", text)
	}
}

// Who may not read the deploys sees the page without them.
func TestDeploysThatMayNotBeRead(t *testing.T) {
	s := start(t)
	s.mark(time.Now(), "v1")
	opt := harness.Must(redis.ParseURL(s.url))(t)
	user := fmt.Sprintf("unmarked-%d", time.Now().UnixNano())
	harness.OK(t, s.rdb.Do(t.Context(), "ACL", "SETUSER", user, "on", ">pw", "+@all", "~stat:*", "~queues", "~processes", "~retry", "~schedule", "~dead", "~paused", "~troupe:*", "~queue:*", "~dear-leader").Err())
	t.Cleanup(func() { s.rdb.Do(context.Background(), "ACL", "DELUSER", user) })
	opt.Username, opt.Password = user, "pw"
	rdb := redis.NewClient(opt)
	t.Cleanup(func() { _ = rdb.Close() })
	other := start(t, func(o *Options) { o.Redis = rdb })
	rdb.Incr(t.Context(), "stat:processed:"+time.Now().UTC().Format(time.DateOnly))
	text := other.get("/")
	contains(t, "the page", text, "a day (UTC)")
	hasNot(t, "the page", text, "v1")
}

// What waited is drawn although nobody looked, since the leader has noted it.
func TestWhatWaitedIsNoted(t *testing.T) {
	s := start(t)
	hasNot(t, "a new overview", s.get("/"), "Jobs waiting")
	s.rdb.SAdd(t.Context(), "queues", "q", "r")
	now := time.Now()
	for i := range 5 {
		s.rdb.LPush(t.Context(), "queue:q", `{"class":"A","args":[],"jid":"a","enqueued_at":`+strconv.FormatInt(now.Add(-time.Hour).Unix(), 10)+`.5}`)
		s.rdb.LPush(t.Context(), "queue:r", `{"class":"A","args":[],"jid":"b"}`, `{"class":"A","args":[],"jid":"b"}`)
		harness.OK(t, beat.NoteDepths(t.Context(), s.rdb, now.Add(time.Duration(i-5)*time.Minute)))
	}
	s.h.sampler.mu.Lock()
	s.h.sampler.last = nil // as of a dashboard that has just begun
	s.h.sampler.mu.Unlock()
	contains(t, "the overview", s.get("/"), "Jobs waiting")
	contains(t, "its JSON", string(s.data("/index.json")), `"title":"Jobs waiting"`, `"value":15`)
	contains(t, "the queue", s.get("/queues/q"), "Jobs waiting", "Oldest job")
	contains(t, "its JSON", string(s.data("/queues/q.json")), `"value":5`, `"value":3`)
}
