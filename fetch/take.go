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
			var sitting *sitting
			if ask > 0 && !anySuspect(acks) { // the queues of suspects ring for nobody
				sitting = f.bell.begin(busy)
			}
			reply, err := takeScript.run(ctx, sitting.via(f.rdb), f.takeArgs(in, prefix, ask, wants, acks, sitting))
			if err != nil {
				sitting.end("", 0, err)
				f.mu.Lock()
				if ask > 0 && f.cur == in {
					f.lost = append(f.lost, lostCall{prefix: prefix, n: ask})
				}
				f.mu.Unlock()
				return err
			}
			var seat string
			units, seat = f.units(in, prefix, reply, ask > 0)
			sitting.end(seat, len(units), nil)
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
	args := make([]any, len(head), len(head)+9+2*len(wants)+len(acks)+2*lists)
	copy(args, head)
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

// units reads the reply of take; looked tells that it was asked for units.
func (f *reliable) units(in *incarnation, prefix string, reply []string, looked bool) (units []Unit, seat string) {
	var paused []int
	if len(reply) > 0 {
		units = make([]Unit, 0, len(reply)-2)
		readReply(reply, func(q int, job string) {
			n := len(f.names)
			units = append(units, Unit{Queue: f.names[q%n], Payload: bytesOf(job), Incarnation: in.n, Suspect: q >= n})
		}, func(q int, text string) {
			switch n := len(f.names); {
			case q < 0:
				seat = text
			case text == "" && q < n:
				paused = append(paused, q)
			case q < n:
				f.sick.report(f.names[q], text)
			case text != "":
				f.sick.report(keys.Suspects(f.names[q-n]), text)
			}
		})
	}
	if looked {
		f.peeks.pause(paused)
		f.bell.pause(paused)
	}
	for i, receipt := range receipts(prefix, len(units)) {
		units[i].Receipt = receipt
	}
	return units, seat
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
