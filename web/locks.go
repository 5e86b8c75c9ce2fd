package web

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/words"
)

// mostLocks is how many locks are read for the page.
const mostLocks = 1000

// locksPage is the data of the list of locks of unique jobs.
type locksPage struct {
	Locks []lockRow `json:"locks"` // those that end first before the others
	More  bool      `json:"more"`  // not all were read
	Pager pager     `json:"-"`
}

// lockRow is a lock with the addresses of its holder and of the question whether to free it.
type lockRow struct {
	fleet.Lock
	Href string `json:"-"`
	Free string `json:"-"`
}

func (r *request) locks() (*page, error) {
	all, more, err := r.fleet.Locks(r.Context(), mostLocks, nil)
	if err != nil {
		return nil, err
	}
	from := min(r.number("from"), int64(len(all)))
	shown := all[from:min(from+rows, int64(len(all)))]
	p := locksPage{Locks: make([]lockRow, len(shown)), More: more, Pager: r.pager(from, len(shown), int64(len(all)))}
	for i, l := range shown {
		p.Locks[i] = lockRow{Lock: l, Free: r.freeing(l.Key, l.Holder)}
		if addressable(l.Holder) {
			p.Locks[i].Href = r.url("jobs", l.Holder)
		}
	}
	return &page{Template: "locks", Title: "Locks", Data: p, Next: p.Pager.Next}, nil
}

// freeing is the address that frees a lock of this holder.
func (r *request) freeing(key, holder string) string {
	return r.url("locks", "free") + "?" + url.Values{"lock": {key}, "holder": {holder}}.Encode()
}

// freeLock frees the lock of the address, if the job of the address holds it still.
func (r *request) freeLock() (*confirm, error) {
	key, holder := r.query("lock"), r.query("holder")
	if len(key) <= len(keys.LockPrefix) || key[:len(keys.LockPrefix)] != keys.LockPrefix || holder == "" {
		return nil, wrong("Use the button of a row on the page of locks.", "Got the lock %.100q and the holder %.100q, expected a key that begins with %s and a job.", key, holder, keys.LockPrefix)
	}
	l, err := r.fleet.Inspector.Lock(r.Context(), key)
	gone := func() (*page, error) {
		return r.undone(r.url("locks"), map[string]int{"done": 0}, "The job %s does not hold the lock any more. Nothing was freed.", words.Head(holder))
	}
	switch {
	case (errors.Is(err, inspect.ErrNotFound) || err == nil && l.Holder != holder) && r.Method == http.MethodPost:
		return &confirm{Button: "Free the lock", Count: 1, do: gone}, nil
	case err != nil:
		return nil, err
	case l.Holder != holder:
		return nil, notFound("The job %s does not hold the lock any more.", words.Head(holder))
	}
	held := []fleet.Lock{fleet.LockOf(l)}
	if err := r.fleet.Holders(r.Context(), held); err != nil {
		return nil, err
	}
	return &confirm{
		Question: "Free the lock of the job " + words.Head(holder) + "?", Button: "Free the lock", Action: r.freeing(key, holder), Back: r.url("locks"), Count: 1, Reason: true,
		Detail: "Where that job is: " + held[0].Where() + ". It stays there. A job that is the same can be pushed then, and run beside it. The reason is kept in the audit.",
		do: func() (*page, error) {
			outcome, err := l.Free(r.Context())
			switch {
			case err != nil:
				return nil, err
			case outcome != inspect.Done:
				return gone()
			}
			out, err := r.done(r.url("locks"), map[string]int{"done": 1}, "The lock of the job %s is free.", words.Head(holder))
			s := out.Data.(said)
			s.jobs = []string{holder}
			out.Data = s
			return out, err
		},
	}, nil
}
