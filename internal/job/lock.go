package job

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/limits"
)

// LockField is the field of a unique job. As the client begins it, it says what makes the job unique; a job in Redis
// has the digest of that, which is never computed again.
const LockField = "t_lock"

// DefaultLock is how long a lock lives.
const DefaultLock = 24 * time.Hour

// lockText is the value of LockField.
type lockText struct {
	Digest string  `json:"digest,omitempty"`
	For    float64 `json:"for"` // seconds
	Until  string  `json:"until,omitempty"`

	By     []string `json:"by,omitempty"`
	Across bool     `json:"across,omitempty"`
}

// Lock is that of a unique job: a key in Redis whose value is the jid of its holder.
type Lock struct {
	Key   string
	JID   string
	For   time.Duration
	Until troupe.UniqueUntil
	Old   bool // the job was pushed before: it may hold the lock
	Gem   bool // it is one of sidekiq-unique-jobs, and Key its digest
}

// EndsWithJob tells whether the end of its job frees the lock: without a job it is an orphan.
func (l *Lock) EndsWithJob() bool { return l.Until != troupe.UntilPeriod }

// MarkUnique has SealLock make p unique by u.
func MarkUnique(p *troupe.Payload, u troupe.Unique) error {
	text, err := EncodeJSON(lockText{For: cmp.Or(u.For, DefaultLock).Seconds(), Until: u.Until.String(), By: u.By, Across: u.Across})
	if err == nil {
		p.Set(LockField, text)
	}
	return err
}

// SealLock writes the digest of what makes p unique, and returns its lock; nil if it is not unique.
func SealLock(p *troupe.Payload, cluster bool) (*Lock, error) {
	raw, ok := p.Get(LockField)
	if !ok {
		return nil, nil
	}
	var t lockText
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, fmt.Errorf("%s is %.60q, expected what client.Unique writes", LockField, raw)
	}
	old := t.Digest != ""
	if !old {
		if t.Across && cluster {
			return nil, &limits.Fault{Field: "Unique.Across", Got: "true", Want: "false on a Redis Cluster, where each queue is in a slot of its own"}
		}
		digest, err := t.digest(p)
		if err != nil {
			return nil, err
		}
		t = lockText{Digest: digest, For: t.For, Until: t.Until}
		text, err := EncodeJSON(t)
		if err != nil {
			return nil, err
		}
		p.Set(LockField, text)
	}
	l := t.lock(p, cluster)
	l.Old = old
	return l, nil
}

// LockBy has p hold the lock of this name until it is done, and returns that. It is for one server.
func LockBy(p *troupe.Payload, name string) *Lock {
	sum := sha256.Sum256([]byte(name))
	t := lockText{Digest: hex.EncodeToString(sum[:16]), For: DefaultLock.Seconds(), Until: troupe.UntilDone.String()}
	text, _ := EncodeJSON(t) // numbers and texts of ours
	p.Set(LockField, text)
	return t.lock(p, false)
}

// LockOf is the lock of a job of the queue in Redis; nil if it has none.
func LockOf(p *troupe.Payload, cluster bool) *Lock {
	raw, ok := p.Get(LockField)
	if !ok {
		return nil
	}
	var t lockText
	if err := json.Unmarshal(raw, &t); err != nil || t.Digest == "" {
		return nil
	}
	return t.lock(p, cluster)
}

// gemField is the field with the digest of a lock that the gem sidekiq-unique-jobs has taken.
const gemField = "lock_digest"

// GemLockOf is the lock of sidekiq-unique-jobs that a job of Ruby's may hold until it is done, or until it starts; nil if it
// has none, or one that its end does not free.
func GemLockOf(p *troupe.Payload) *Lock {
	digest, ok := p.String(gemField)
	if !ok || digest == "" {
		return nil
	}
	l := &Lock{Key: digest, JID: p.JID(), Gem: true}
	switch kind, _ := p.String("lock"); kind {
	case "until_executed":
	case "until_executing", "until_and_while_executing":
		l.Until = troupe.UntilStart
	default:
		return nil
	}
	return l
}

func (t *lockText) lock(p *troupe.Payload, cluster bool) *Lock {
	l := &Lock{Key: keys.Lock(t.Digest, p.Queue(), cluster), JID: p.JID(), For: time.Duration(t.For * float64(time.Second))}
	for u := troupe.UntilDone; u <= troupe.UntilPeriod; u++ {
		if u.String() == t.Until {
			l.Until = u
		}
	}
	return l
}

// digest is the SHA-256 of the class, the queue unless it goes across queues, and the chosen arguments with the keys
// of their objects in order. Numbers count as they are written: 1 is not 1.0.
func (t *lockText) digest(p *troupe.Payload) (string, error) {
	args, err := decodeArgs(p.Args())
	if err != nil {
		return "", err
	}
	what := []any{p.Class(), p.Wrapped()}
	if !t.Across {
		what = append(what, p.Queue())
	}
	if t.By == nil {
		what = append(what, args)
	}
	for _, by := range t.By {
		v, ok := at(args, by)
		if !ok {
			return "", &limits.Fault{Field: "Unique.By", Got: strconv.Quote(by), Want: "a place that the arguments have"}
		}
		what = append(what, by, v)
	}
	text, err := json.Marshal(what) // the keys of a map are sorted
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

func decodeArgs(raw []byte) (args []any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&args)
	return args, err
}

// at is the value at a place of the arguments: "0", "0.id", "id".
func at(args []any, place string) (any, bool) {
	first, rest, deep := strings.Cut(place, ".")
	n, err := strconv.Atoi(first)
	if err != nil {
		n, rest, deep = 0, place, true
	}
	if n < 0 || n >= len(args) {
		return nil, false
	}
	v := args[n]
	for deep {
		object, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		var name string
		name, rest, deep = strings.Cut(rest, ".")
		if v, ok = object[name]; !ok {
			return nil, false
		}
	}
	return v, true
}
