package job

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/script"
	"github.com/troupehq/troupe/internal/words"
)

// RulesHead is the head of scripts that know limits.
//
//go:embed rules.lua
var RulesHead string

//go:embed define.lua
var defineSource string

var defineScript = script.New("job.define", defineSource)

// Define is the way in which the text of a limit is written to Redis.
type Define string

const (
	DefineStart Define = "start" // as a configuration says, unless it was set by hand
	DefineKeep  Define = "keep"  // likewise, where Redis has none
	DefineSet   Define = "set"   // by hand
	DefineReset Define = "reset" // no more by hand; the text is ""
)

// DefineLimits says what limits allow, name -> LimitText, and returns how many of them are there now.
func DefineLimits(ctx context.Context, rdb redis.UniversalClient, base string, how Define, texts map[string]string) (int, error) {
	args := []any{string(how)}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		args = append(args, name, texts[name])
	}
	n, err := defineScript.Run(ctx, rdb, []string{keys.Limits(base)}, args...).Int()
	if err != nil {
		return 0, fmt.Errorf("define limits: %w", err)
	}
	return n, nil
}

// LimitTexts returns the LimitText of limits, by the name that their rules have. Two limits of one name that differ are an error.
func LimitTexts(all ...troupe.Limit) (map[string]string, error) {
	texts := map[string]string{}
	for i := range all {
		name, text := ruleName(&all[i]), LimitText(all[i])
		if other, ok := texts[name]; ok && other != text {
			return nil, fmt.Errorf("limit %q is there twice: %q and %q, expected one of each name", all[i].Name, other, text)
		}
		texts[name] = text
	}
	return texts, nil
}

// Rules are the limits that a job is under, and what its move asks of them.
type Rules struct {
	Base string // of the keys; see keys.LimitBase
	// IDs are NAME:KEY, or NAME, in their order.
	IDs []string
	// Slots are the keys of their slots, "" of a rate and of a limit without a bound: their jobs have none while they run.
	Slots []string
	// Limits are those of the rules.
	Limits []*troupe.Limit
	JID    string
	Age    float64 // enqueued_at of the job in seconds, by which held jobs are sorted

	// Of a move that asks: how long a slot lives, and whether there is room in any case, for a slot that Redis has
	// forgotten.
	Lease time.Duration
	Force bool
	// Ahead: it asks before its run is to start, with its jid alone. It is let in if more than half of what a rule allows
	// is free, or its only slot, and else is to ask again.
	Ahead bool
	// Of another move, which ends the slots: they live for so long more, for a job that comes again at once; or they are of
	// another name, for a run that was given up and goes on.
	Keep time.Duration
	As   string
	// Said is what the end of the run tells the breakers of the rules: SaidOK, SaidFailed, SaidRest, or "" if nothing. nil: no rule
	// has a breaker.
	Said []string
}

// What the end of a run tells a breaker.
const (
	SaidOK     = "ok"
	SaidFailed = "failed"
)

// SaidRest is the text that makes a rule rest for d, whatever the outcome of the run.
func SaidRest(d time.Duration) string { return "rest " + inSeconds(d) }

// SameKind reports whether two limits differ by their numbers alone, which can change while jobs run.
func SameKind(a, b *troupe.Limit) bool {
	return (a.AtOnce > 0) == (b.AtOnce > 0) && (a.Rate > 0) == (b.Rate > 0) && (a.Breaker == nil) == (b.Breaker == nil) &&
		a.By == b.By && (a.Key == nil) == (b.Key == nil) && a.Throttled == b.Throttled
}

func inSeconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// CanRest returns the reason why troupe.Rest cannot make the limit of that name rest, nil if it can. all are the limits of the job.
func CanRest(all []*troupe.Limit, name string) error {
	i := slices.IndexFunc(all, func(l *troupe.Limit) bool { return l.Name == name })
	if i < 0 {
		var names []string
		for _, l := range all {
			names = append(names, l.Name)
		}
		return fmt.Errorf("the job is not under it, expected %s", words.OneOf(name, names...))
	}
	if all[i].Breaker == nil {
		return errors.New("it has no Breaker, expected one: an empty one will do")
	}
	return nil
}

// TellsFailure tells whether the end of the run may open a breaker; false of nil.
func (r *Rules) TellsFailure() bool {
	return r != nil && slices.ContainsFunc(r.Said, func(s string) bool { return s != "" && s != SaidOK })
}

// BreakerChange is what became of the breaker of a rule.
type BreakerChange struct {
	Rule   string
	Closed bool      // else it is open
	Again  bool      // it was open before
	Ends   time.Time // of the rest
}

// ParseBreakerChange reads what settle tells: RULE WHAT ENDS JID.
func ParseBreakerChange(text string) (jid string, j BreakerChange, ok bool) {
	words := strings.SplitN(text, " ", 4)
	if len(words) != 4 {
		return "", j, false
	}
	ends, err := strconv.ParseFloat(words[2], 64)
	j = BreakerChange{Rule: words[0], Closed: words[1] == "closed", Again: words[1] == "again"}
	if !j.Closed {
		j.Ends = time.UnixMicro(int64(math.Round(ends * 1e6)))
	}
	return words[3], j, err == nil
}

// onTheirWay is how many jobs of a limit without a bound are let in and have not started.
const onTheirWay = 1000

// LimitText is what a limit allows, as Redis has it: "N" at once, or "BURST SECONDS" for one in so many seconds, and its breaker; see
// rules.lua.
func LimitText(l troupe.Limit) string {
	text := boundText(l)
	if b := l.Breaker; b != nil {
		text += " " + BreakerText(b.Failures, cmp.Or(b.Rest, limits.Rest))
	}
	return text
}

// BreakerText is what the text of a limit says of its breaker.
func BreakerText(failures int, rest time.Duration) string {
	return "breaker " + strconv.Itoa(failures) + " " + inSeconds(rest)
}

func boundText(l troupe.Limit) string {
	if l.AtOnce > 0 {
		if l.Throttled {
			return strconv.Itoa(l.AtOnce) + " throttled"
		}
		return strconv.Itoa(l.AtOnce)
	}
	if l.Rate == 0 {
		return strconv.Itoa(onTheirWay) + " 0"
	}
	per := cmp.Or(l.Per, time.Second)
	burst := cmp.Or(l.Burst, max(1, int(float64(l.Rate)*0.01/per.Seconds())))
	return strconv.Itoa(burst) + " " + strconv.FormatFloat(per.Seconds()/float64(l.Rate), 'f', -1, 64)
}

// ruleName is the name of a limit in rules, where the first colon ends it.
func ruleName(l *troupe.Limit) string { return RuleName(l.Name) }

// RuleName is the name of a limit as rules have it; NameOfRule is its inverse.
func RuleName(name string) string { return strings.ReplaceAll(name, ":", "%3A") }

// NameOfRule is the name of a limit as people write it.
func NameOfRule(name string) string { return strings.ReplaceAll(name, "%3A", ":") }

// RulesOf are the rules of a job under these limits.
func RulesOf(p *troupe.Payload, base string, all ...*troupe.Limit) (*Rules, error) {
	r := &Rules{Base: base, JID: p.JID()}
	if r.JID == "" {
		r.JID = fmt.Sprintf("~%x", sha256.Sum256(p.Bytes()))
	}
	for _, l := range all {
		id, err := ruleOf(l, p)
		if err != nil {
			return nil, err
		}
		if slices.Contains(r.IDs, id) { // of the class and of the queue
			continue
		}
		slots := ""
		switch name, key, _ := strings.Cut(id, ":"); {
		case l.Throttled:
			slots = keys.Throttled(NameOfRule(name), key)
		case l.AtOnce > 0:
			slots = keys.Slots(base, id)
		}
		r.IDs, r.Slots, r.Limits = append(r.IDs, id), append(r.Slots, slots), append(r.Limits, l)
	}
	return r, nil
}

// ruleOf is the rule of a limit that counts a job.
func ruleOf(l *troupe.Limit, p *troupe.Payload) (string, error) {
	name, key := ruleName(l), ""
	switch {
	case l.Key != nil:
		var err error
		if key, err = l.Key(p); err != nil {
			return "", fmt.Errorf("the key of limit %q: %w", l.Name, err)
		}
	case l.By != "":
		args, err := decodeArgs(p.Args())
		if err != nil {
			return "", err
		}
		v, ok := at(args, l.By)
		if !ok {
			return "", fmt.Errorf("limit %q: By is %q, expected a place that the arguments have", l.Name, l.By)
		}
		if text, ok := v.(string); ok {
			key = text
		} else if text, err := EncodeJSON(v); err == nil {
			key = string(text)
		}
	default:
		return name, nil
	}
	return name + ":" + ruleKey(key), nil
}

// maxRuleKey is how long the key of a rule is at most, encoded.
const maxRuleKey = 200

// ruleKey writes a key without white space. A long one ends with the SHA-256 of it.
func ruleKey(key string) string {
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c >= 0x7f || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	if text := b.String(); len(text) <= maxRuleKey {
		return text
	}
	return fmt.Sprintf("%s~%x", strings.TrimRight(b.String()[:100], "%0123456789ABCDEF"), sha256.Sum256([]byte(key)))
}

// Header is what is said of a held job in front of its bytes: the key of the list that it goes back to, the name of its queue if
// that may be new to the set of all queues, its jid and rules.
func (r *Rules) Header(list, queue string) ([]byte, error) {
	return EncodeJSON(append([]string{list, queue, r.JID}, r.IDs...))
}

// HeldJob is a job that a limit holds.
type HeldJob struct {
	List, Queue, JID string // as Header has them
	Rules            []string
	Payload          []byte
}

// ParseHeld reads a member of the zset of held jobs.
func ParseHeld(member string) (h HeldJob, ok bool) {
	head, payload, ok := strings.Cut(member, "\n")
	_, header, found := strings.Cut(head, " ")
	var what []string
	if !ok || !found || json.Unmarshal([]byte(header), &what) != nil || len(what) < 4 {
		return h, false
	}
	return HeldJob{List: what[0], Queue: what[1], JID: what[2], Rules: what[3:], Payload: []byte(payload)}, true
}
