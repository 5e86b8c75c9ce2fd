package claimmodel

import (
	"errors"
	"maps"
	"slices"
)

// Errors that Redis answers a single command with; a script catches them.
var (
	errType = errors.New("WRONGTYPE")
	errFull = errors.New("OOM")
)

// brokenOff ends a script half-way: what it has done stays done.
type brokenOff struct{}

// kind is the type of a key.
type kind uint8

const (
	aString kind = iota + 1
	aList        // leftmost element first
	aHash
	aSet // a sorted set, without its scores
)

// value is what a key holds.
type value struct {
	kind  kind
	list  []string
	hash  map[string]string // of a sorted set, too
	until int               // when it expires; 0 means never
}

func (v *value) copy() *value {
	return &value{kind: v.kind, list: slices.Clone(v.list), hash: maps.Clone(v.hash), until: v.until}
}

// Master is one server: the only one, or the one that holds some slots of a
// Cluster.
type Master struct {
	name  string
	now   *int
	keys  map[string]*value
	bad   map[string]bool // keys that answer WRONGTYPE, whatever they hold
	full  bool            // out of memory
	waits []*wait         // blocked moves, who blocked first in front
	epoch int             // how often it has fallen back; a connection lives in one epoch
	saved []map[string]*value
}

func (m *Master) find(key string) *value {
	v := m.keys[key]
	if v != nil && v.until != 0 && v.until <= *m.now {
		delete(m.keys, key)
		return nil
	}
	return v
}

// save remembers what the master holds: an RDB file, or a replica that lags.
func (m *Master) save() {
	if len(m.saved) == 3 {
		m.saved = m.saved[1:]
	}
	m.saved = append(m.saved, copyKeys(m.keys))
}

func copyKeys(keys map[string]*value) map[string]*value {
	out := make(map[string]*value, len(keys))
	for key, v := range keys {
		out[key] = v.copy()
	}
	return out
}

// call is the run of a script, or of a single command, on a master.
type call struct {
	m       *Master
	wrote   bool // a command that writes was called: nothing is refused for want of memory any more
	refused bool // a command was refused for want of memory
	left    int  // commands until it breaks off; negative means never
}

// touch begins a command. It returns the key's value, nil if there is none.
func (c *call) touch(key string, want kind, write, grows bool) (*value, error) {
	if c.left == 0 {
		panic(brokenOff{})
	}
	c.left--
	if grows && c.m.full && !c.wrote {
		c.refused = true
		return nil, errFull
	}
	c.wrote = c.wrote || write
	v := c.m.find(key)
	if want != 0 && (c.m.bad[key] || v != nil && v.kind != want) {
		return nil, errType
	}
	return v, nil
}

func (c *call) make(key string, k kind) *value {
	v := &value{kind: k}
	if k == aHash || k == aSet {
		v.hash = map[string]string{}
	}
	c.m.keys[key] = v
	return v
}

func (c *call) drop(key string, v *value) {
	if len(v.list) == 0 && len(v.hash) == 0 {
		delete(c.m.keys, key)
	}
}

func (c *call) exists(key string) bool { v, _ := c.touch(key, 0, false, false); return v != nil }

func (c *call) del(key string) { c.touch(key, 0, true, false); delete(c.m.keys, key) } //nolint:errcheck // DEL takes any type

// set overwrites a key of any type. ttl 0 means for ever.
func (c *call) set(key, text string, ttl int) error {
	if _, err := c.touch(key, 0, true, true); err != nil {
		return err
	}
	v := c.make(key, aString)
	v.list = []string{text}
	if ttl > 0 {
		v.until = *c.m.now + ttl
	}
	return nil
}

// expire gives a key a TTL, or takes it away if ttl is 0.
func (c *call) expire(key string, ttl int) {
	v, _ := c.touch(key, 0, true, false)
	if v == nil {
		return
	}
	if v.until = 0; ttl > 0 {
		v.until = *c.m.now + ttl
	}
}

func (c *call) hget(key, field string) (string, error) {
	v, err := c.touch(key, aHash, false, false)
	if v == nil {
		return "", err
	}
	return v.hash[field], nil
}

func (c *call) hset(key, field, text string) error {
	v, err := c.touch(key, aHash, true, true)
	if err != nil {
		return err
	}
	if v == nil {
		v = c.make(key, aHash)
	}
	v.hash[field] = text
	return nil
}

func (c *call) hdel(key, field string) {
	if v, _ := c.touch(key, aHash, true, false); v != nil {
		delete(v.hash, field)
		c.drop(key, v)
	}
}

// fields returns the names of a hash's fields in order.
func (c *call) fields(key string) []string {
	v, _ := c.touch(key, aHash, false, false)
	if v == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(v.hash))
}

func (c *call) llen(key string) (int, error) {
	v, err := c.touch(key, aList, false, false)
	if v == nil {
		return 0, err
	}
	return len(v.list), nil
}

func (c *call) lrange(key string) ([]string, error) {
	v, err := c.touch(key, aList, false, false)
	if v == nil {
		return nil, err
	}
	return slices.Clone(v.list), nil
}

// push is LPUSH or RPUSH.
func (c *call) push(key, job string, left bool) error {
	v, err := c.touch(key, aList, true, true)
	if err != nil {
		return err
	}
	if v == nil {
		v = c.make(key, aList)
	}
	if left {
		v.list = slices.Insert(v.list, 0, job)
	} else {
		v.list = append(v.list, job)
	}
	return nil
}

// lrem is LREM key -1 job: the one that is nearest to the right end.
func (c *call) lrem(key, job string) (bool, error) {
	v, err := c.touch(key, aList, true, false)
	if v == nil {
		return false, err
	}
	for i, other := range slices.Backward(v.list) {
		if other == job {
			v.list = slices.Delete(v.list, i, i+1)
			c.drop(key, v)
			return true, nil
		}
	}
	return false, nil
}

// take moves the oldest job: LMOVE from to RIGHT LEFT.
func (c *call) take(from, to string) (string, error) { return c.lmove(from, to, false) }

// giveBack moves the newest job: LMOVE from to LEFT RIGHT.
func (c *call) giveBack(from, to string) (string, error) { return c.lmove(from, to, true) }

// lmove returns "" if from is empty.
func (c *call) lmove(from, to string, back bool) (string, error) {
	v, err := c.touch(from, aList, true, true)
	if v == nil {
		return "", err
	}
	if t := c.m.find(to); c.m.bad[to] || t != nil && t.kind != aList {
		return "", errType
	}
	end := len(v.list) - 1
	if back {
		end = 0
	}
	job := v.list[end]
	v.list = slices.Delete(v.list, end, end+1)
	c.drop(from, v)
	t := c.m.find(to)
	if t == nil {
		t = c.make(to, aList)
	}
	if back {
		t.list = append(t.list, job)
	} else {
		t.list = slices.Insert(t.list, 0, job)
	}
	return job, nil
}

func (c *call) zadd(key, member string) error {
	v, err := c.touch(key, aSet, true, true)
	if err != nil {
		return err
	}
	if v == nil {
		v = c.make(key, aSet)
	}
	v.hash[member] = ""
	return nil
}

func (c *call) zrem(key, member string) bool {
	v, _ := c.touch(key, aSet, true, false)
	if v == nil {
		return false
	}
	_, ok := v.hash[member]
	delete(v.hash, member)
	c.drop(key, v)
	return ok
}
