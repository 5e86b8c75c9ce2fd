package fetch

import (
	"context"
	"strconv"
	"unsafe"

	"github.com/troupehq/troupe/internal/keys"
)

// Take acks and takes in one call; see Fetcher. One call takes at most 1,000
// units, whatever n.
func (f *reliable) Take(ctx context.Context, n int, acks []Unit) ([]Unit, error) {
	var units []Unit
	err := f.call(ctx, "take", func(in *incarnation) error {
		f.mu.Lock()
		ask := min(max(n-len(f.stash), 0), maxTake)
		f.calls++
		prefix := receiptPrefix(f.calls)
		var wants []Want
		if ask > 0 {
			wants = f.wants(ask, f.rand)
		}
		busy := f.busy > len(acks)
		f.mu.Unlock()

		if ask > 0 || len(acks) > 0 {
			var mark uint64
			if ask > 0 {
				mark = f.laps.begins()
			}
			var sitting *sitting
			if ask > 0 && !anySuspect(acks) { // the queues of suspects ring for nobody
				sitting = f.bell.begin(busy)
			}
			reply, err := takeScript.run(ctx, sitting.via(f.rdb), f.takeArgs(in, prefix, ask, wants, acks, sitting))
			if err != nil {
				sitting.end("", 0, err)
				if ask > 0 {
					f.laps.ends(mark, 0, 0, nil, err)
				}
				f.mu.Lock()
				if ask > 0 && f.cur == in {
					f.lost = append(f.lost, lostCall{prefix: prefix, n: ask})
				}
				f.mu.Unlock()
				return err
			}
			got := f.units(in, prefix, reply, ask > 0)
			units = got.units
			sitting.end(got.seat, len(units), nil)
			if ask > 0 {
				f.laps.ends(mark, ask-len(units), got.lapped, got.paused, nil)
			}
		}
		f.mu.Lock()
		if have := min(n, len(f.stash)); have > 0 && f.cur.n == in.n {
			units = append(f.stash[:have:have], units...)
			f.stash = f.stash[have:]
		}
		f.busy = max(0, f.busy-len(acks)) + len(units)
		f.mu.Unlock()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return units, nil
}

// takeArgs builds the command; receipts travel as pointers, which go-redis
// writes without another allocation each.
func (f *reliable) takeArgs(in *incarnation, prefix string, ask int, wants []Want, acks []Unit, sitting *sitting) []any {
	head, lists := in.head, len(f.names)
	if anySuspect(acks) {
		head, lists = f.wideHead(in), 2*lists
	}
	args := make([]any, len(head), len(head)+9+4*len(wants)+len(acks)+4*lists)
	copy(args, head)
	laps := f.laps != nil && ask > 0
	if laps {
		args[2] = 2 + 2*lists + 2*len(f.names)
		for i, name := range f.names {
			args = append(args, keys.Lap(name), in.wips[i])
		}
	}
	name, flags := "", ""
	if sitting != nil {
		args[2] = 4 + 2*lists
		args = append(args, f.bell.keys...)
		name, flags = f.bell.name, sitting.flags
	}
	args = append(args, in.generation, f.ttl, prefix, ask, nil, name, flags)
	known, first := len(args)-3, len(args)
	for _, want := range wants {
		if i, ok := f.index[want.Queue]; ok {
			if laps {
				args = append(args, lists+i+1, want.N)
			}
			args = append(args, i+1, want.N)
		}
	}
	args[known] = (len(args) - first) / 2

	if len(acks) == 0 {
		return args
	}
	counts := make([]int, lists)
	for i := range acks {
		if f.owns(in, acks[i]) { // else a rescuer has it
			counts[f.place(&acks[i])]++
		}
	}
	for q, count := range counts {
		if count == 0 {
			continue
		}
		args = append(args, q+1, count)
		name, suspect := f.names[q%len(f.names)], q >= len(f.names)
		for i := range acks {
			if acks[i].Queue == name && acks[i].Suspect == suspect && f.owns(in, acks[i]) {
				args = append(args, &acks[i].Receipt)
			}
		}
	}
	return args
}

// taken is what a take has brought.
type taken struct {
	units  []Unit
	seat   string
	paused []int // queues
	lapped int   // how many of the units were in laps
}

// units reads the reply of take; looked tells that it was asked for units. What
// comes behind the queues is of laps, since suspects are taken by another call.
func (f *reliable) units(in *incarnation, prefix string, reply []string, looked bool) (got taken) {
	if len(reply) > 0 {
		n := len(f.names)
		got.units = make([]Unit, 0, len(reply)-2)
		readReply(reply, func(q int, job string) {
			if q >= n {
				got.lapped++
			}
			got.units = append(got.units, Unit{Queue: f.names[q%n], Payload: bytesOf(job), Incarnation: in.n})
		}, func(q int, text string) {
			switch {
			case q < 0:
				got.seat = text
			case text == "" && q < n:
				got.paused = append(got.paused, q)
			case q < n:
				f.sick.report(f.names[q], text)
			case text != "" && f.laps != nil && looked:
				f.sick.report(f.names[q%n], "its lap: "+text)
			case text != "":
				f.sick.report(keys.Suspects(f.names[q%n]), text)
			}
		})
	}
	if looked {
		f.peeks.pause(got.paused)
		f.bell.passOver(got.paused)
	}
	for i, receipt := range receipts(prefix, len(got.units)) {
		got.units[i].Receipt = receipt
	}
	return got
}

// readReply walks through (i, count, job*)*, (-i, error text or "" for a paused
// queue) and (0, seat); q counts from 0 and is -1 for the seat.
func readReply(reply []string, unit, problem func(q int, text string)) {
	for len(reply) >= 2 {
		i := atoi(reply[0])
		if i <= 0 {
			problem(-i-1, reply[1])
			reply = reply[2:]
			continue
		}
		end := 2 + atoi(reply[1])
		for _, job := range reply[2:end] {
			unit(i-1, job)
		}
		reply = reply[end:]
	}
}

// atoi reads a number that a script of ours has written.
func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic("fetch: reply of a script: " + err.Error())
	}
	return n
}

// bytesOf gives the bytes of s without a copy. Nobody else keeps s, and a
// Unit's Payload is never modified.
func bytesOf(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}
