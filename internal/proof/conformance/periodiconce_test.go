package conformance

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/periodic"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/memredis"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// onceDays are the days of the year 2000, with which virtual time begins, on which the clocks of Berlin change, each
// with when 02:30 runs: once. Of Ruby alone it runs never, and twice.
var onceDays = []struct {
	from, ours string
	alone      []string
}{
	{"2000-03-26T00:00:00Z", "2000-03-26T01:00:00Z", nil},
	{"2000-10-29T00:00:00Z", "2000-10-29T00:30:00Z", []string{"2000-10-29T00:30:01Z", "2000-10-29T01:30:01Z"}},
}

// polled is what a poller of Ruby finds when it looks.
type polled struct {
	At    int64            `json:"at"`
	Marks map[string]int64 `json:"marks"`
	Last  string           `json:"last"` // last_enqueue_time
}

// With dst: once a time of day runs once on the days on which the clocks change, beside a poller of Ruby that looks
// twice a minute, a second after: it pushes nothing, since we have marked the tick that is not to run, too.
func TestPeriodicOnceBesideRuby(t *testing.T) {
	t.Parallel()
	rdb, url, looked := periodicSite(t)
	redistest.Ruby(t, url, withCron+`J.create(name: "theirs", cron: "0 5 1 1 *", class: "Known")`) // which says that it is of the old generation
	harness.OK(t, looked.SavePeriodic(t.Context(), troupe.Periodic{Name: "dst", Cron: "30 2 * * * Europe/Berlin", Class: "Known", Queue: "known", Once: true}))
	const entry = "cron_job:dst"
	hash := harness.Must(rdb.HGetAll(t.Context(), entry).Result())(t)
	for _, day := range onceDays {
		polls, ours := onceDay(t, hash, harness.Must(time.Parse(time.RFC3339, day.from))(t))
		harness.EqualList(t, day.from+": what we push", ours, []string{day.ours})
		harness.EqualList(t, day.from+": what Ruby pushes beside us", rubyPolls(t, url, entry, polls), nil)
		for i := range polls { // as if we were not there: its own marks stay
			polls[i].Marks, polls[i].Last = nil, ""
		}
		harness.EqualList(t, day.from+": what Ruby pushes alone", rubyPolls(t, url, entry, polls), day.alone)
	}
}

// onceDay carries out an entry for four hours of virtual time, and returns what a poller found and the ticks that
// were pushed.
func onceDay(t *testing.T, hash map[string]string, from time.Time) (polls []polled, ticks []string) {
	synctest.Test(t, func(t *testing.T) {
		mem := memredis.New(t)
		rdb := redis.NewClient(mem.Options())
		defer func() { _ = rdb.Close() }()
		time.Sleep(time.Until(from)) // virtual time
		key := keys.PeriodicJob("", "dst", false)
		harness.OK(t, rdb.HSet(t.Context(), key, hash).Err())
		harness.OK(t, rdb.SAdd(t.Context(), keys.PeriodicSet(""), key).Err())
		yesterday := from.Add(-23 * time.Hour).Truncate(time.Hour).Add(30 * time.Minute)
		harness.OK(t, rdb.ZAdd(t.Context(), keys.PeriodicMarks(key), redis.Z{Score: float64(yesterday.Unix()), Member: yesterday.Format(time.RFC3339)}).Err())
		ticker := &periodic.Ticker{
			Store: &periodic.Store{Redis: rdb, Zone: time.UTC}, Client: client.New(rdb),
			Ticked: func(*periodic.Entry, periodic.Tick) {}, Wrong: func(_ *periodic.Entry, why error) { t.Error(why) },
		}
		for at := from; at.Before(from.Add(4 * time.Hour)); at = at.Add(30 * time.Second) {
			time.Sleep(time.Until(at)) // virtual time
			harness.Must(ticker.Step(t.Context()))(t)
			time.Sleep(time.Second) // virtual time: Ruby takes a tick only then
			p := polled{At: time.Now().Unix(), Marks: map[string]int64{}, Last: rdb.HGet(t.Context(), key, "last_enqueue_time").Val()}
			for _, z := range rdb.ZRangeWithScores(t.Context(), keys.PeriodicMarks(key), 0, -1).Val() {
				p.Marks[z.Member.(string)] = int64(z.Score)
			}
			polls = append(polls, p)
		}
		for _, raw := range rdb.LRange(t.Context(), keys.Queue("known"), 0, -1).Val() {
			tick, _ := harness.Must(troupe.ParsePayload([]byte(raw)))(t).String(periodic.TickField)
			ticks = append(ticks, tick)
		}
	})
	return polls, ticks
}

// rubyPolls has a poller of Ruby look at an entry at the times of polls, and returns those at which it pushed.
func rubyPolls(t *testing.T, url, entry string, polls []polled) (pushed []string) {
	t.Helper()
	text := harness.Must(json.Marshal(polls))(t)
	return redistest.RubyJSON[[]string](t, url, withCron+`
Time.singleton_class.prepend(Module.new { def now(*) = $at ? $at.dup : super })
pushed = []
Sidekiq.redis { |c| c.del("`+entry+`:enqueued"); c.hdel("`+entry+`", "last_enqueue_time") }
Sidekiq.load_json('`+string(text)+`').each do |poll|
  Sidekiq.redis do |c|
    poll["marks"]&.each { |member, score| c.zadd("`+entry+`:enqueued", score, member) }
    c.hset("`+entry+`", "last_enqueue_time", poll["last"]) unless poll["last"].empty?
    before = c.llen("queue:known")
    $at = Time.at(poll["at"]).utc
    POLLER.send(:enqueue_job, J.find("dst"), $at)
    $at = nil
    pushed << Time.at(poll["at"]).utc.strftime("%Y-%m-%dT%H:%M:%SZ") if c.llen("queue:known") > before
  end
end
show pushed`)
}
