package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/control"
	"github.com/troupehq/troupe/internal/flight"
	"github.com/troupehq/troupe/internal/keys"
)

// member is a process of troupe as Redis knows it: it beats, has a tree and runs jobs, and does no work.
type member struct {
	id           string
	version      string
	rss          int64 // kilobytes
	up           time.Duration
	busy         int           // of the ten processors of its capsule default; of the four of mailers, a half
	silent       time.Duration // since its last beat
	storm        bool
	unresponsive bool
	fenced       bool
}

var crew = []member{
	{id: "worker-1:1184:5f0c21d9e8a7", version: "0.9.1", rss: 61_440, up: 75 * time.Hour, busy: 7},
	{id: "worker-2:1203:a41be07d3c96", version: "0.9.1", rss: 58_200, up: 75 * time.Hour, busy: 5, fenced: true},
	{id: "worker-3:1219:e93d10b65a78", version: "0.9.2", rss: 88_310, up: 26 * time.Minute, busy: 6, storm: true},
	{id: "worker-4:1242:0c6fa2d471be", version: "0.9.2", rss: 91_040, up: 26 * time.Minute, busy: 4, storm: true},
	{id: "worker-5:1260:77d0c95b1e42", version: "0.9.1", rss: 70_912, up: 31 * time.Hour, busy: 8, unresponsive: true},
	{id: "worker-6:1277:b8240fe6d193", version: "0.9.1", rss: 59_776, up: 75 * time.Hour, busy: 3, silent: 41 * time.Second},
}

const stormText = "pq: remaining connection slots are reserved for roles with the SUPERUSER attribute"

var runs = []struct{ class, queue, args string }{
	{"Webhooks::Deliver", "default", `["https://partner.example/hooks/42",{"event":"order.paid","order":48219}]`},
	{"Inventory::Sync", "default", `[{"sku":"MUG-318","warehouse":"ams"}]`},
	{"Payments::Capture", "critical", `[12345678901234567890,{"amount":"19.90","currency":"EUR","api_token":"sk_live_7"}]`},
	{"Carts::Remind", "default", `[{"cart":77264}]`},
}

func (m *member) jid(n int) string {
	return fmt.Sprintf("%s%012x", m.id[len(m.id)-12:], 0x9e3779b97f4a&(n*0x1000193+n<<24))
}

// job is what a processor runs: some just begun, some for minutes.
func (m *member) job(n int, now time.Time) (ref *actors.JobRef, args string) {
	r := runs[(n+len(m.version)+int(m.rss))%len(runs)]
	since := time.Duration((n*7919+int(m.rss))%97+1) * 310 * time.Millisecond
	return &actors.JobRef{JID: m.jid(n), Class: r.class, Queue: r.queue, Started: now.Add(-since)}, r.args
}

// tree is its tree, and the jobs that its processors run, as fields of its hash of running jobs.
func (m *member) tree(now time.Time, tick int) (tree actors.Tree, work []any) {
	node := func(path, role, capsule string, state actors.State) *actors.Node {
		tree = append(tree, actors.Node{Path: path, Role: role, Capsule: capsule, State: state, For: m.up})
		return &tree[len(tree)-1]
	}
	node("launcher", "launcher", "", actors.StateRunning)
	for c, name := range []string{"default", "mailers"} {
		processors, busy := 10, m.busy
		if c > 0 {
			processors, busy = 4, m.busy/2
		}
		manager := node("launcher/"+name, "manager", name, actors.StateRunning)
		if m.storm && c == 0 {
			manager.Budget = &actors.Budget{Used: 17, Most: 20, Period: time.Minute}
		}
		if m.unresponsive && c == 0 {
			manager.Unresponsive = []actors.Unresponsive{{
				JobRef: actors.JobRef{JID: "41d7b0e92c8856fa03be17d4", Class: "Reports::Monthly", Queue: "default", Started: now.Add(-6 * time.Minute)},
				Since:  now.Add(-4 * time.Minute), Cause: "timeout of 2m0s", Replaced: true, Stack: stack,
			}}
		}
		run := func(processor string, ref *actors.JobRef, args string) {
			payload := fmt.Sprintf(`{"class":%q,"args":%s,"jid":%q,"queue":%q,"retry":true,"created_at":%d,"enqueued_at":%d}`, ref.Class, args, ref.JID, ref.Queue, ref.Started.Unix()-2, ref.Started.Unix()-1)
			text, _ := json.Marshal(map[string]any{"queue": ref.Queue, "run_at": ref.Started.Unix(), "payload": payload})
			work = append(work, name+"/"+processor, text)
		}
		for _, u := range manager.Unresponsive {
			run("processor-10", &u.JobRef, `["2026-11","eu"]`)
		}
		node("launcher/"+name+"/fetcher", "fetcher", name, actors.StateRunning)
		for i := range processors {
			n := node(fmt.Sprintf("launcher/%s/processor-%d", name, i), "processor", name, actors.StateIdle)
			n.For = time.Duration(i+1) * 900 * time.Millisecond
			if m.storm && c == 0 && i >= processors-2 {
				n.State, n.Restarts, n.Note, n.LastFailure = actors.StateRestarting, 6+i, fmt.Sprintf("in %.1fs", 1.2+float64((tick+i)%5)), stormText+"\n"+stormStack
				continue
			}
			if i >= busy {
				continue
			}
			ref, args := m.job(i+c*10, now)
			if c > 0 {
				ref.Class, ref.Queue, args = "Orders::Confirmation", "mailers", fmt.Sprintf(`[%d,%q]`, 48_230+i, []string{"ada", "ken", "grace", "radia"}[i]+"@example.com")
			}
			n.State, n.Job, n.For = actors.StateBusy, ref, now.Sub(ref.Started)
			run(fmt.Sprint("processor-", i), ref, args)
		}
	}
	for _, role := range []string{"heartbeat", "poller", "rescuer"} {
		node("launcher/"+role, role, "", actors.StateRunning)
	}
	return tree, work
}

// beat writes what such a process tells at each beat.
func (m *member) beat(ctx context.Context, pipe redis.Pipeliner, now time.Time, tick int) {
	at := now.Add(-m.silent)
	tree, work := m.tree(now, tick)
	text, _ := json.Marshal(tree)
	var host string
	var pid int
	_, _ = fmt.Sscanf(m.id, "%8s:%d", &host, &pid)
	info, _ := json.Marshal(map[string]any{
		"hostname": host, "pid": pid, "identity": m.id, "tag": "shop", "concurrency": 14, "queues": []string{"critical", "default", "mailers"}, "labels": []string{},
		"started_at": now.Add(-m.up).Unix(), "version": m.version, "embedded": false,
	})
	pipe.SAdd(ctx, keys.Processes, m.id)
	pipe.HSet(ctx, m.id, "info", info, "busy", len(work)/2, "beat", at.Unix(), "quiet", "false", "rss", m.rss, "rtt_us", 180)
	p := beat.Pulse{
		At: float64(at.Unix()), Version: m.version, Tag: "shop", Phase: "running", Actors: map[string]string{},
		Capsules: []beat.PulseCapsule{{Name: "default", Busy: m.busy, Idle: 10 - m.busy}, {Name: "mailers", Busy: m.busy / 2, Idle: 4 - m.busy/2}},
		Oldest:   float64(now.Unix() - int64(m.busy*m.busy*2)), Taken: map[string]uint64{"default": uint64(tick * 40), "mailers": uint64(tick * 21), "critical": uint64(tick * 6)},
	}
	if m.storm {
		p.Capsules[0].Idle, p.Capsules[0].Down, p.Restarts, p.Recent, p.Failure = 8-m.busy, 2, 31, 17, "default/processor-8: "+stormText
		for i, path := range []string{"launcher/default/processor-8", "launcher/default/processor-9"} {
			for k, kind := range []string{flight.Crashed, flight.Restarted} {
				record, _ := json.Marshal(flight.Record{At: now.Add(time.Duration(k+2*i-5) * 300 * time.Millisecond), Kind: kind, Actor: path, Text: []string{stormText, fmt.Sprintf("restart %d", 12+tick%8)}[k]})
				pipe.RPush(ctx, keys.Flight(m.id), record)
			}
		}
		pipe.ZAdd(ctx, keys.Flights, redis.Z{Score: float64(now.Unix()), Member: m.id})
	}
	if m.unresponsive {
		p.Unresponsive, p.Oldest = 1, float64(now.Add(-6*time.Minute).Unix())
	}
	if m.fenced {
		p.Fencings = 1
	}
	beat.WritePulse(ctx, pipe, m.id, p.JSON(), now)
	pipe.Set(ctx, keys.Tree(m.id), text, time.Minute)
	pipe.Del(ctx, keys.Work(m.id))
	if len(work) > 0 {
		pipe.HSet(ctx, keys.Work(m.id), work...)
	}
	for c, name := range []string{"default", "mailers"} {
		id, lease := fmt.Sprintf("%s#%s.1", m.id, name), 27*time.Second
		if m.silent > 0 {
			lease = 9 * time.Second
		}
		pipe.HSet(ctx, keys.Slot{}.Registry(), id, `{"v":2,"queues":["critical","default","mailers"]}`)
		pipe.HSet(ctx, keys.Slot{}.Index(id), "!", "1 7", "7.1", fmt.Sprintf("%s %d", name, now.Add(-4*time.Second).UnixMilli()))
		list := keys.Slot{}.List(id, "7.1")
		pipe.Del(ctx, list)
		for i := range []int{m.busy, m.busy / 2}[c] {
			pipe.LPush(ctx, list, fmt.Sprintf(`{"class":"Carts::Remind","args":[],"jid":%q,"queue":%q}`, m.jid(i+c*10), name))
		}
		pipe.Set(ctx, keys.CommonOf(id, false).Lease, "1", lease)
	}
}

// obey answers requests, as far as it has anything to do.
func (m *member) obey(ctx context.Context, rdb *redis.Client) {
	for ctx.Err() == nil {
		requests, _ := control.Requests(ctx, rdb, m.id, time.Second)
		for _, r := range requests {
			_ = control.Answer(ctx, rdb, r, control.Reply{Process: m.id, Result: control.Done})
		}
	}
}

const stack = `goroutine 8121 [select]:
example.com/shop/reports.(*Rows).Next(0xc0004a2d80)
	/src/reports/rows.go:88 +0x1c5
example.com/shop/reports.Monthly({0x1a3f2c0, 0xc00041e5a0}, 0xc0003d6a20)
	/src/reports/monthly.go:41 +0x2f4
github.com/troupehq/troupe.HandlerFunc.Perform(...)
	/src/vendor/github.com/troupehq/troupe/registry.go:61`

const stormStack = `goroutine 5120 [running]:
example.com/shop/store.(*DB).MustBegin(0xc00021c000)
	/src/store/db.go:57 +0x9e
example.com/shop/inventory.Sync({0x1a3f2c0, 0xc0006e41e0}, 0xc00064b440)
	/src/inventory/sync.go:23 +0x6c`
