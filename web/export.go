package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/words"
)

const exportWrite = 30 * time.Second // that a client may take to read a part

// export writes the entries that the filter chooses as lines of JSON, as the user may see them;
// troupe jobs import takes those that are not masked.
func (r *request) export(k setKind) error {
	f, err := r.filter(r.query, k)
	if err != nil {
		return err
	}
	most, long := mostSearched, searchTime
	if r.user.Role >= Admin {
		most, long = math.MaxInt, math.MaxInt64
	}
	h := r.w.Header()
	h.Set("Content-Type", "application/jsonl; charset=utf-8")
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s-%s.jsonl"`, cmp.Or(k.Queue, k.Name), time.Now().UTC().Format("20060102-150405")))
	out := http.NewResponseController(r.w)
	lines := json.NewEncoder(r.w)
	lines.SetEscapeHTML(false)
	n := 0
	var unread error // a job that is longer than what a walk reads
	w, err := r.walk(k, &f, "", most, long, func(e bulk.Entry, _ bulk.Key) bool {
		if n%rows == 0 {
			_ = out.SetWriteDeadline(time.Now().Add(exportWrite)) // where it can be set
		}
		n++
		l, masked := bulk.Line{Queue: k.Queue}, !r.showsAll()
		if e.Sorted != nil {
			l.Set, l.Score = k.Name, scores.Format(e.Sorted.Score)
		}
		var raw string
		if masked {
			raw = r.bytesOf(e.Record())
		} else {
			var there bool
			if raw, there, unread = e.Whole(r.ctx); unread != nil || !there {
				return unread == nil
			}
		}
		l.Put(raw, masked)
		return lines.Encode(l) == nil && r.ctx.Err() == nil
	})
	switch err = cmp.Or(err, unread); {
	case err != nil && n == 0:
		h.Del("Content-Disposition")
		return err
	case err != nil:
		_ = lines.Encode(map[string]string{"partial": faultOf(err).Text}) // what has been sent cannot be taken back
	case !w.End:
		_ = lines.Encode(map[string]string{"partial": "searched the first " + words.Plural(w.Looked, "entry") + "; an admin may export all"})
	}
	return nil
}
