package beat

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestAPulseIsShort(t *testing.T) {
	p := Pulse{At: 1795000000.123, Version: "0.1.0", Tag: "shop", Phase: "running", Failure: strings.Repeat("x", 120), Actors: map[string]string{}, Taken: map[string]uint64{}}
	for i := range 10 {
		p.Capsules = append(p.Capsules, PulseCapsule{Name: "c" + strconv.Itoa(i), Busy: 40, Idle: 50, Down: 10})
	}
	text := p.JSON()
	var back Pulse
	if err := json.Unmarshal(text, &back); err != nil || len(text) > MostPulses || len(back.Capsules) != 10 || back.Failure == "" {
		t.Errorf("%d bytes, %v: %s", len(text), err, text)
	}
	for i := range 200 {
		p.Actors[strings.Repeat("a", 50)+strconv.Itoa(i)] = "crashed"
		p.Taken[strings.Repeat("q", 50)+strconv.Itoa(i)] = 1
	}
	for i := range p.Capsules {
		p.Capsules[i].Name = strings.Repeat("long", 64)
	}
	text = p.JSON()
	back = Pulse{}
	if err := json.Unmarshal(text, &back); err != nil || len(text) > MostPulses || len(back.Capsules) != 1 || back.Capsules[0].Busy != 400 || back.Capsules[0].Down != 100 {
		t.Errorf("too long: %d bytes, %v: %s", len(text), err, text)
	}
}

func TestReadFindsThoseThatDidNotEndWell(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx, now := t.Context(), time.Now()
	write := func(id string, at time.Time) {
		if _, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			WritePulse(ctx, pipe, id, Pulse{Phase: "running", Restarts: 3}.JSON(), at)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	write("old:1:a", now.Add(-PulseLife-time.Minute))
	write("left:1:b", now)
	write("dead:1:c", now.Add(-time.Minute))
	harness.Must(rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { ClearPulse(ctx, pipe, "left:1:b"); return nil }))(t)
	write("new:1:d", now)
	rdb.ZAdd(ctx, keys.Pulses, redis.Z{Score: float64(now.Unix()), Member: "gone:1:e"})
	all := harness.Must(ReadPulses(ctx, rdb))(t)
	if ids := slices.Sorted(maps.Keys(all)); !slices.Equal(ids, []string{"dead:1:c", "new:1:d"}) || all["dead:1:c"].Restarts != 3 || all["dead:1:c"].Identity != "dead:1:c" {
		t.Errorf("%v", ids)
	}
	if ttl := rdb.PTTL(ctx, keys.Pulse("new:1:d")).Val(); ttl > PulseLife || ttl < PulseLife-time.Minute {
		t.Errorf("it stays for %v", ttl)
	}
}
