package beat

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"os"
	"runtime/metrics"
	"strconv"
	"time"
)

// Hostname returns the first part of an identity: the variable DYNO, where the
// platform sets it, else the name of the host.
func Hostname(getenv func(string) string) string {
	if dyno := getenv("DYNO"); dyno != "" {
		return dyno
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "localhost"
	}
	return host
}

// NewIdentity returns HOST:PID:NONCE, where the nonce is 12 new hex digits.
// A process makes one and keeps it.
func NewIdentity(host string, pid int) string {
	var nonce [6]byte
	rand.Read(nonce[:]) // never fails: see crypto/rand
	return host + ":" + strconv.Itoa(pid) + ":" + hex.EncodeToString(nonce[:])
}

// RSS returns the memory of this process in KB: the resident set on Linux,
// elsewhere what the Go runtime has taken from the system and not given back.
func RSS() int64 {
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := bytes.Fields(statm); len(fields) > 1 {
			if pages, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
				return pages * int64(os.Getpagesize()) / 1024
			}
		}
	}
	return runtimeKB()
}

func runtimeKB() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64()-s[1].Value.Uint64()) / 1024
}

// SlowRTT is the round trip above which a Redis is too far away or too busy.
const SlowRTT = 50 * time.Millisecond

const slowReadings = 5

// Latency watches round trips. The zero value is ready.
type Latency struct{ slow int }

// Slow takes the next round trip and returns true, for a warning, when the last
// five were all above SlowRTT; then it counts anew.
func (l *Latency) Slow(rtt time.Duration) bool {
	if rtt <= SlowRTT {
		l.slow = 0
		return false
	}
	l.slow++
	if l.slow < slowReadings {
		return false
	}
	l.slow = 0
	return true
}
