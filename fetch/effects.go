package fetch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/script"
)

// Effects are what else happens in the step that carries out a Move: all of it when the move does, or nothing.
type Effects struct {
	// Push are jobs that enter Redis. If a queue refuses one, none of them enters, and the move is
	// refused as by its own destination. Only with ToNone and ToStay.
	Push []Push
	// Hash is written as well; its refusal is that of the move. nil: none.
	Hash *Hash
	// Lock is the lock of the unit's own job, nil if it is not unique. If the job holds it, it is freed once the move is
	// carried out; with Keep it lives so long from now on instead, and is taken again if nobody holds it. One of
	// sidekiq-unique-jobs stays as it is with Keep.
	Lock *job.Lock
	Keep time.Duration
	// Rules are the limits that the unit's own job is under, nil without any. With ToStay they are asked, and the Move has no
	// other effects: the job stays in progress if all let it in, else it is held by the first that does not (see Stay). With
	// another destination it leaves them behind the move, and who waits for its slots is let in.
	Rules *job.Rules
	// Count is what is counted of the unit's own job in its batch behind the move; nil without a batch.
	Count *job.Count

	// Breakers is what became of the breakers of Rules. Settle sets it, unless its reply was lost.
	Breakers []job.BreakerChange

	// Result is kept behind the move, and published, unless Redis is out of memory; nil: none. The move succeeds all the same.
	Result *KeptEnd

	// Unkept is why Result is not kept, for example since Redis is out of memory; "" if it is. Settle sets it, unless its
	// reply was lost.
	Unkept string

	// Left are the jids of Push that did not enter since others hold their locks. Settle sets them, unless its
	// reply was lost.
	Left []string
}

// Push is a job that enters Redis with a Move.
//
//	Queue   string // bare name
//	Score   string // of the member of the schedule set, in seconds since the epoch; "" puts the job into Queue
//	Payload []byte
//	Lock    *Lock // of a unique job: it enters unless another one holds this; nil: it is not unique
//	Batch   *Join // that it enters; nil: none. Without a Payload nothing more enters that
type Push = job.Push

// Hash is a hash that is written with a Move, and its time to live.
type Hash struct {
	Key    string
	Fields []any // names and values
	TTL    time.Duration
}

// KeptEnd is a string that is kept for some time and published on the channel of its key: see job.Ended.
type KeptEnd struct {
	Key   string
	Value []byte
	TTL   time.Duration
}

// Stay is what is known of a Move to ToStay.
type Stay struct {
	// Done: it was carried out. After a Settle without an error it is false if the unit is no longer in
	// progress by our hand.
	Done bool
	// Held is the rule that holds the unit now, of one that asked its rules; "" if that is not known, since the reply was lost.
	Held string
	// Again: it asked ahead (job.Rules), and is to ask again when it starts. Done is false.
	Again bool
}

// Size is the number of bytes of the effects; 0 of nil.
func (e *Effects) Size() (bytes int) {
	if e == nil {
		return 0
	}
	for i := range e.Push {
		bytes += len(e.Push[i].Payload)
	}
	if e.Result != nil {
		bytes += len(e.Result.Value)
	}
	return bytes
}

// pushes is how many jobs the move pushes.
func (m *Move) pushes() int {
	if m.Effects == nil {
		return 0
	}
	return len(m.Effects.Push)
}

// Reaches implements Effector. On a Cluster only what is in the slot of the queue is reached in one step.
func (f *fetcher) Reaches(queue, key string) error {
	if own := keys.Queue(queue); !f.cluster || key == own || strings.Contains(key, "{"+own+"}") {
		return nil
	}
	return fmt.Errorf("on a Redis Cluster %s is in another slot than queue %q of the job", key, queue)
}

// pushMax is how many arguments a push has at most: Lua hands them to one command.
const pushMax = 1000

// effectArgs appends the effects of a group of moves to the arguments of settle.
func (p *index) effectArgs(todo []moving, g *moveGroup, names *[]string, args []any) []any {
	count := len(args)
	args = append(args, 0)
	effects, open, number := 0, 0, 0 // open is the index of the number of arguments of the last effect
	queue, scheduled := "", false
	var into *job.Join
	var counts []job.Counted
	var leaving *job.Rules // of the last effect, if the arguments end with it
	rulesAt, rulesEnd := 0, 0
	for _, i := range g.moves {
		m := &todo[i]
		if m.Effects == nil {
			continue
		}
		for k := range m.Effects.Push {
			push := &m.Effects.Push[k]
			if b := push.Batch; b != nil {
				if b != into {
					into, effects, open = b, effects+1, len(args)+1
					args = b.Begun(append(args, "join", 0), true)
				}
				if push.Payload != nil {
					args = job.Joins(args, push)
				}
				args[open], number = len(args)-open-1, pushMax+1
				continue
			}
			if l := push.Lock; l != nil {
				var queue, conflicts any = "", ""
				if push.Score == "" {
					queue = script.KeyNumber(names, keys.Queue(push.Queue)) + 1
				}
				if !p.in.f.cluster && l.EndsWithJob() {
					conflicts = script.KeyNumber(names, keys.Conflicts) + 1
				}
				args = append(args, "unique", 8, script.KeyNumber(names, l.Key)+1, l.JID, l.For.Milliseconds(), queue, p.known(push.Queue), conflicts, push.Score, push.Payload)
				effects, number = effects+1, pushMax+1
				continue
			}
			if effects == 0 || scheduled != (push.Score != "") || !scheduled && queue != push.Queue || number > pushMax {
				queue, scheduled = push.Queue, push.Score != ""
				effects, open, number = effects+1, len(args)+1, 2
				var key, known any = "", ""
				if !scheduled {
					key, known = script.KeyNumber(names, keys.Queue(queue))+1, p.known(queue)
				}
				args = append(args, "push", 0, key, known)
			}
			if scheduled {
				args = append(args, push.Score)
				number++
			}
			args = append(args, push.Payload)
			number++
			args[open] = number
		}
		if l := m.Effects.Lock; l != nil && l.Gem {
			if m.Effects.Keep == 0 {
				args = append(args, "gem", 5)
				for _, key := range keys.GemLock(l.Key) {
					args = append(args, key)
				}
				args = append(args, l.JID)
				effects, number = effects+1, pushMax+1
			}
		} else if l != nil {
			args = append(args, "lock", 3, script.KeyNumber(names, l.Key)+1, l.JID, m.Effects.Keep.Milliseconds())
			effects, number = effects+1, pushMax+1
		}
		if r := m.Effects.Rules; r != nil {
			if leaving == nil || rulesEnd != len(args) || leaving.Base != r.Base || leaving.Keep != r.Keep || leaving.As != r.As || !slices.Equal(leaving.IDs, r.IDs) {
				leaving, effects, number, rulesAt = r, effects+1, pushMax+1, len(args)+1
				args = append(args, "rules", 0, r.Base, r.Keep.Seconds(), r.As, len(r.IDs))
				for _, id := range r.IDs {
					args = append(args, id)
				}
			}
			args = append(args, r.JID)
			args[rulesAt], rulesEnd = len(args)-rulesAt-1, len(args)
			if r.Said != nil {
				args = append(args, "breaker", 2+2*len(r.IDs), r.Base, r.JID)
				for k, id := range r.IDs {
					args = append(args, id, r.Said[k])
				}
				effects++
			}
		}
		if k := m.Effects.Result; k != nil {
			args = append(args, "keep", 3, script.KeyNumber(names, k.Key)+1, k.TTL.Milliseconds(), k.Value)
			effects, number = effects+1, pushMax+1
		}
		if h := m.Effects.Hash; h != nil {
			args = append(args, "hash", 2+len(h.Fields), script.KeyNumber(names, h.Key)+1, h.TTL.Milliseconds())
			args = append(args, h.Fields...)
			effects, number = effects+1, pushMax+1
		}
		if c := m.Effects.Count; c != nil {
			counts = job.AddCount(counts, *c)
		}
	}
	for _, c := range counts {
		args = append(append(args, "count", 3+len(c.Indexes), c.ID, string(c.Event), c.Due), c.Indexes...)
	}
	args[count] = effects + len(counts)
	return args
}

// known is the name of a queue that may be new to the set of all queues; "" where that is in another slot.
func (p *index) known(queue string) string {
	if p.in.f.cluster {
		return ""
	}
	return queue
}

// left notes the jid of a push that did not enter.
func left(todo []moving, jid string) {
	for i := range todo {
		e := todo[i].Effects
		for k := 0; e != nil && k < len(e.Push); k++ {
			if l := e.Push[k].Lock; l != nil && l.JID == jid {
				e.Left = append(e.Left, jid)
			}
		}
	}
}

// changed notes what became of a breaker.
func changed(todo []moving, text string) {
	jid, what, ok := job.ParseBreakerChange(text)
	for i := range todo {
		if e := todo[i].Effects; ok && e != nil && e.Rules != nil && e.Rules.JID == jid && slices.Contains(e.Rules.IDs, what.Rule) {
			e.Breakers = append(e.Breakers, what)
			return
		}
	}
}

// unkept notes why a result was not kept.
func unkept(todo []moving, key, why string) {
	for i := range todo {
		if e := todo[i].Effects; e != nil && e.Result != nil && e.Result.Key == key {
			e.Unkept = why
		}
	}
}
