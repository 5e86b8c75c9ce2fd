package sim

import (
	"maps"
	"time"
)

// snapshot is the data of Redis at one time.
type snapshot struct {
	at   time.Time
	keys []saved
}

type saved struct {
	name, kind, text string
	list             []string // members, or fields and values
	scores           map[string]float64
	expires          time.Time
}

const snapshots = 400 // kept of a run in which Redis falls back

// save copies the data, if the plan has Redis fall back.
func (w *world) save() {
	if !w.plan.fallsBack() {
		return
	}
	r := w.redis
	s := &snapshot{at: time.Now()}
	for _, name := range r.Keys() {
		k := saved{name: name, kind: r.Type(name)}
		switch k.kind {
		case "string":
			k.text, _ = r.Get(name)
		case "list":
			k.list, _ = r.List(name)
			k.list = append([]string(nil), k.list...)
		case "set":
			k.list, _ = r.SMembers(name)
		case "hash":
			fields, _ := r.HKeys(name)
			for _, f := range fields {
				k.list = append(k.list, f, r.HGet(name, f))
			}
		case "zset":
			scores, _ := r.SortedSet(name)
			k.scores = maps.Clone(scores) // it is the server's own
		default:
			panic("a key of type " + k.kind)
		}
		if ttl := r.TTL(name); ttl > 0 {
			k.expires = s.at.Add(ttl)
		}
		s.keys = append(s.keys, k)
	}
	w.saved = append(w.saved, s)
	if len(w.saved) > snapshots {
		w.saved = w.saved[1:]
	}
}

// fallBack gives Redis the data that it had so many changes ago.
func (w *world) fallBack(changes int) {
	if len(w.saved) == 0 {
		return
	}
	i := max(0, len(w.saved)-1-changes)
	s := w.saved[i]
	w.saved = w.saved[:i+1]
	w.say("      redis falls back by %s", time.Since(s.at))
	r := w.redis
	r.FlushAll()
	for _, k := range s.keys {
		left := time.Until(k.expires)
		if !k.expires.IsZero() && left <= 0 {
			continue
		}
		switch k.kind {
		case "string":
			if k.text == spoilt { // of a trouble, which nothing would end
				continue
			}
			_ = r.Set(k.name, k.text)
		case "list":
			_, _ = r.Push(k.name, k.list...)
		case "set":
			_, _ = r.SAdd(k.name, k.list...)
		case "hash":
			r.HSet(k.name, k.list...)
		case "zset":
			for member, score := range k.scores {
				_, _ = r.ZAdd(k.name, score, member)
			}
		}
		if !k.expires.IsZero() {
			r.SetTTL(k.name, left)
		}
	}
	w.fell = w.loading
	w.book.fellBack()
	w.after(time.Until(w.fell)+noticed, w.book.kept)
}
