package web

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// The page of a job names the job that has pushed it with its ack, and what is behind it in a chain, masked.
func TestThePageOfAJobOfAChain(t *testing.T) {
	s := start(t)
	s.rdb.ZAdd(t.Context(), "dead", redis.Z{Score: 1795225014, Member: `{"class":"Import","args":[],"queue":"low","jid":"j1","t_parent":"p1","t_next":["{\"class\":\"Publish\",\"args\":[{\"password\":\"s3cr3t\"}],\"queue\":\"mail\",\"jid\":\"j2\"}"]}`})
	page := s.get("/jobs/j1")
	contains(t, "the page", page, "It was pushed by the job p1 as that was done.", `<dt>Pushed by</dt><dd><a href="/jobs/p1"><code>p1</code></a></dd>`,
		`<dt>Behind it</dt><dd>1 job, next Publish in <a href="/queues/mail">mail</a></dd>`, "1 more job is behind it: class Publish, queue mail; a retry carries on with it.", "[masked]")
	hasNot(t, "the page", page, "s3cr3t", "<dt>t_parent</dt>")
}
