package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/redistest"
)

const planted = "CANARY7f3a"

// kinds are jobs with a secret in their arguments, without the end of the object.
var kinds = map[string]string{
	"plain":     `{"class":"Pay","args":[{"password":"` + planted + `"},"https://x/?api_key=` + planted + `"],"unique_args":[{"token":"` + planted + `"}]`,
	"wrapped":   `{"class":"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper","wrapped":"Cleanup","args":[{"job_class":"Cleanup","arguments":[{"token":"` + planted + `","_aj_symbol_keys":["token"]}]}]`,
	"mail":      `{"class":"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper","wrapped":"ActionMailer::MailDeliveryJob","args":[{"job_class":"ActionMailer::MailDeliveryJob","arguments":["Notifier","welcome","deliver_now",{"args":[{"secret":"` + planted + `"}],"_aj_ruby2_keywords":["args"]}]}]`,
	"chained":   `{"class":"First","args":[],"t_next":["{\"class\":\"Sealed\",\"queue\":\"mail\",\"encrypt\":true,\"args\":[1,\"` + planted + `\"]}"]`,
	"encrypted": `{"class":"Sealed","encrypt":true,"args":[1,"` + planted + `"]`,
}

// secretFields are fields with a secret in each that may have one.
const secretFields = `,"queue":"mail","retry":true,"retry_count":1,"created_at":1795225014.2,"enqueued_at":1795225014.25,"failed_at":1795225014.5,"tags":["a","token=` + planted + `"],` +
	`"cattr":{"user":1,"password":"` + planted + `"},"cattr_1":{"api_key":"` + planted + `"},"api_key":"` + planted + `","note":"secret: ` + planted + `","error_class":"Net::Error",` +
	`"error_message":"GET https://x/?api_key=` + planted + `","error_backtrace":["a.rb:1","password=` + planted + `"]`

// plantedIn are the places where plant has put a job of each kind.
var plantedIn = []string{"queue", "retry", "schedule", "dead", "run", "progress"}

// plant puts jobs with secrets everywhere, and secrets into what processes tell.
func plant(t *testing.T, rdb *redis.Client) {
	t.Helper()
	do := func(args ...any) {
		t.Helper()
		if err := rdb.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(args, err)
		}
	}
	now := time.Now()
	const ruby, ours, dead = "h:1:a", "h:2:b", "gone:9:cc#default.1"
	do("SADD", "queues", "mail")
	do("SADD", "processes", ruby, ours)
	do("HSET", ruby, "info", `{"hostname":"h","pid":1,"concurrency":2,"queues":["mail"],"identity":"`+ruby+`"}`, "busy", 1, "beat", now.Unix(), "quiet", "false")
	do("HSET", ours, "info", `{"hostname":"h","pid":2,"concurrency":2,"queues":["mail"],"identity":"`+ours+`","version":"troupe"}`, "busy", 0, "beat", now.Unix(), "quiet", "false")
	do("SET", "troupe:pulse:"+ours, `{"at":`+fmt.Sprint(now.Unix())+`,"version":"0.1","phase":"running","capsules":[{"name":"default","idle":2}],"restarts":9,"restarts_1m":9,"failure":"launcher/default/processor-0: panic: token=`+planted+`"}`)
	do("ZADD", "troupe:pulses", now.Unix(), ours)
	do("SET", "troupe:tree:"+ours, `[{"path":"launcher/default","role":"manager","capsule":"default","state":"restarting","restarts":9,"last_failure":"panic: token=`+planted+`\ngoroutine 1","depth":0,"for_ns":5,`+
		`"unresponsive":[{"jid":"run-plain","class":"Pay","queue":"mail","started":"2026-11-21T00:00:00Z","since":"2026-11-21T00:00:00Z","cause":"password: `+planted+`","stack":"goroutine 1"}]}]`)
	for i, kind := range []string{"job failed", "job cancelled", "actor crashed", "actor restarted", "actor escalated", "process storm"} {
		do("RPUSH", "troupe:flight:"+ours, `{"at":"`+now.Add(time.Duration(i)*time.Millisecond).UTC().Format(time.RFC3339Nano)+`","kind":"`+kind+`","jid":"retry-plain","class":"Pay","queue":"mail","actor":"launcher/default","text":"password=`+planted+`"}`)
	}
	do("ZADD", "troupe:flights", now.Unix(), ours)
	do("HSET", "troupe:places", dead, `{"v":2,"queues":["mail"]}`)
	do("HSET", "troupe:inprogress:"+dead, "!", "1 7", "7.1", "mail 1795224881000")
	do("SADD", "cron_jobs:default", "cron_job:default:planted")
	do("HSET", "cron_job:default:planted", "name", "planted", "klass", "Pay", "cron", "@daily token="+planted, "description", "token="+planted, "args", `[{"token":"`+planted+`"}]`, "status", "enabled", "message", `{"class":"Pay","args":[{"token":"`+planted+`"}]}`)
	for kind, job := range kinds {
		as := func(place string) string { return job + `,"jid":"` + place + "-" + kind + `"` + secretFields + "}" }
		do("LPUSH", "queue:mail", as("queue"))
		do("ZADD", "retry", now.Unix()+60, as("retry"))
		do("ZADD", "schedule", now.Unix()+60, as("schedule"))
		do("ZADD", "dead", now.Unix(), as("dead"))
		do("LPUSH", "troupe:claim:"+dead+":7.1", as("progress"))
		do("HSET", ruby+":work", kind, fmt.Sprintf(`{"queue":"mail","payload":%q,"run_at":%d}`, as("run"), now.Unix()))
		do("HSET", "it-run-"+kind, "ex", 1, "c", `{"token":"`+planted+`"}`)
		do("LPUSH", "app:queue:mail:p1:inprogress", as("adopt"))
	}
	do("ZADD", "dead", now.Unix(), `{"password":"`+planted)
	do("LPUSH", "queue:mail", `{"password":"`+planted)
	do("ZADD", "retry", now.Unix(), `{"password":"`+planted)
}

// looks are command lines that show, or tell of, the jobs that plant has made.
func looks() (all []string) {
	var cancels []string
	for _, line := range lines {
		all = append(all, strings.ReplaceAll(line, " --args show", ""))
	}
	for _, place := range plantedIn {
		for kind := range kinds {
			all = append(all, "jobs show "+place+"-"+kind, "explain "+place+"-"+kind)
			cancels = append(cancels, "jobs cancel "+place+"-"+kind) // last: it deletes what waits
		}
	}
	for _, list := range []string{"retry", "scheduled", "dead", "running", "queue:mail"} {
		all = append(all, "jobs list "+list, "jobs list "+list+" --limit 0 --text Net", "jobs list "+list+" --error api_key")
		if list != "running" {
			all = append(all, "jobs export "+list, "jobs delete "+list+" --all --dry-run")
		}
	}
	all = append(all, "queues show mail", "periodic show planted", "explain planted", "inflight --jobs", "ps --trouble", "tree h:2:b", "tree --trouble", "events --kind crashed", "audit --limit 0", "doctor", "metrics",
		"jobs move queue:mail --all --to slow --dry-run", "jobs move queue:mail --all --to slow", "jobs retry retry --all", "jobs retry dead --all", "jobs kill scheduled --all", "audit", "adopt go-workers --namespace app --process p1 --dry-run")
	return append(all, cancels...)
}

// No command shows a secret of a job, of an error or of an event, and what is masked is not found by a
// filter, unless it is told to.
func TestNoCommandShowsSecrets(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	all := looks()
	slices.Sort(all)
	shown := map[string]int{}
	for _, how := range []string{"", "--args=hide", "--args=show"} {
		for _, more := range []string{"", "--json"} {
			if how == "--args=hide" && more == "--json" {
				continue
			}
			if err := rdb.FlushDB(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			fill(t, rdb)
			plant(t, rdb)
			file := export(t)
			for _, line := range all {
				act, _, _ := strings.Cut(strings.TrimPrefix(line, "jobs "), " ")
				if !slices.Contains([]string{"move", "retry", "kill", "delete", "reschedule", "import", "rescue", "adopt"}, act) {
					line += " --read-only" // it need not wait for processes
				}
				words := append(wordsOf(line, file), "--redis", url)
				if how != "" {
					words = append(words, how)
				}
				if more != "" {
					words = append(words, more)
				}
				got := call(t.Context(), words...)
				if i := strings.Index(got.out+got.err, planted); i >= 0 {
					if shown[line]++; how != "--args=show" {
						text := got.out + got.err
						t.Errorf("%q: …%s…", words, text[max(0, i-200):min(len(text), i+40)])
					}
				} else if strings.Contains(got.out+got.err, "hunter2") && how != "--args=show" {
					t.Errorf("%q: %s", words, got)
				}
			}
		}
		if how == "--args=show" {
			continue
		}
		for _, list := range []string{"retry", "scheduled", "dead", "running", "queue:mail"} { // nor is it found
			for _, by := range []string{"--text", "--error", "--tag"} {
				value := planted
				if by == "--tag" {
					value = "token=" + planted
				}
				words := []string{"jobs", "list", list, by, value, "--redis", url}
				if how != "" {
					words = append(words, how)
				}
				if got := call(t.Context(), words...); got.code != 0 || got.out != "" {
					t.Errorf("%q finds what is masked: %s", words, got)
				}
			}
		}
		if texts := strings.Join(rdb.LRange(t.Context(), "troupe:audit", 0, -1).Val(), "\n"); strings.Contains(texts, planted) || strings.Count(texts, "jobs move") == 0 {
			t.Errorf("the audit: %s", texts)
		}
	}
	if len(shown) < 6 {
		t.Errorf("these show what they are to show: %v", slices.Sorted(maps.Keys(shown)))
	}
}
