package fetch

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"unsafe"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/parcel"
)

// Take acks and takes in one call; see Fetcher. One call takes at most 2,560
// units, whatever n.
func (f *reliable) Take(ctx context.Context, n int, acks []Unit) ([]Unit, error) {
	var units []Unit
	err := f.call(ctx, "take", func(in *incarnation) error {
		f.mu.Lock()
		ask := min(max(n-len(f.stash), 0), maxTake)
		f.mu.Unlock()
		var prefix string
		if ask > 0 || len(acks) > 0 {
			var err error
			if units, prefix, err = f.takeNow(ctx, in, ask, acks); err != nil {
				return err
			}
		}
		units = f.hand(in, n, units)
		f.answered(prefix)
		f.mu.Lock()
		f.busy = max(0, f.busy-len(acks)) + len(units)
		f.thrift.weigh(units)
		f.mu.Unlock()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return units, nil
}

// takeNow makes the call, whose receipts have the prefix.
func (f *reliable) takeNow(ctx context.Context, in *incarnation, ask int, acks []Unit) (units []Unit, prefix string, err error) {
	var wants []Want
	if ask > 0 {
		wants = f.plan(ask)
	}
	f.mu.Lock()
	prefix = f.asks(in, "", 0)
	busy := f.busy > len(acks)
	parcels, most := f.thrift.parcels(ask)
	f.mu.Unlock()
	var mark uint64
	if ask > 0 {
		mark = f.laps.begins()
	}
	var sitting *sitting
	if ask > 0 && !anySuspect(acks) { // the queues of suspects ring for nobody
		sitting = f.bell.begin(busy)
	}
	if sitting != nil {
		parcels = 0 // what it reads by that connection would be tracked
	}
	var got taken
	answered := false
	defer func() {
		if !answered {
			got, err = taken{}, cmp.Or(err, errPanicked)
		}
		sitting.end(got.seat, len(got.units), err)
		if ask > 0 {
			f.laps.ends(mark, ask-len(got.units), got.lapped, got.paused, err)
		}
	}()

	args, sent := f.takeArgs(in, prefix, ask, parcels, most, wants, acks, sitting)
	var reply []string
	var lists [][]string
	if parcels > 0 {
		reply, lists, err = takeScript.runWith(ctx, f.rdb, args, parcelLists(in, prefix, parcels))
	} else {
		reply, err = takeScript.run(ctx, sitting.via(f.rdb), args)
	}
	if err != nil {
		return nil, "", err
	}
	f.shipped(sent)
	if got, err = f.units(in, prefix, reply, lists, ask > 0); err != nil {
		return nil, "", err
	}
	answered = true
	return got.units, prefix, nil
}

// parcelLists are the keys of the lists that a call may fill.
func parcelLists(in *incarnation, prefix string, n int) []string {
	lists := make([]string, n)
	for k := range lists {
		lists[k] = keys.Parcels(in.id, prefix) + strconv.Itoa(k)
	}
	return lists
}

// takeArgs builds the command, and tells which parcels it acks. Receipts travel as
// pointers, which go-redis writes without another allocation each. parcels is how many
// it may bring, and most how many units in each.
func (f *reliable) takeArgs(in *incarnation, prefix string, ask, parcels, most int, wants []Want, acks []Unit, sitting *sitting) ([]any, shipment) {
	head, lists, laps := in.head, len(f.names), f.laps != nil && ask > 0
	switch {
	case anySuspect(acks): // made when it is wanted, so that fetching carries no key for nothing
		head, lists = f.head(in, true, laps), 2*lists
	case laps:
		head = in.lapHead
	}
	args := make([]any, len(head), len(head)+13+4*len(wants)+len(acks)+6*lists)
	copy(args, head)
	name, flags := "", ""
	if sitting != nil {
		args[2] = 4 + 2*lists
		args = append(args, f.bell.keys...)
		name, flags = f.bell.name, sitting.flags
		if flags == "sk" && len(acks) == 0 && len(wants) < min(ask, 10) {
			flags = "skq" // see quick.lua
		}
	}
	args = append(args, in.generation, f.ttl, prefix, ask, nil, name, flags, most, parcels, keys.Parcels(in.id, prefix), f.env.bytes())
	known, first := len(args)-7, len(args)
	for _, want := range wants {
		if i, ok := f.index[want.Queue]; ok {
			if laps {
				args = append(args, lists+i+1, want.N)
			}
			args = append(args, i+1, want.N)
		}
	}
	args[known] = (len(args) - first) / 2
	return f.appendAcks(args, in, acks, lists)
}

// appendAcks adds the arguments of acks. Those of another incarnation are left out:
// a rescuer has them.
func (f *reliable) appendAcks(args []any, in *incarnation, acks []Unit, lists int) ([]any, shipment) {
	var parcels shipment
	counts := make([]int, lists)
	for i := range acks {
		if !f.owns(in, acks[i]) {
			continue
		}
		counts[f.place(&acks[i])]++
		if p := acks[i].Parcel; p != nil {
			parcels.of(p).n++
		}
	}
	for i := range parcels {
		if a := &parcels[i]; !a.whole() {
			a.open, a.first = true, a.p.takeApart()
		}
	}
	for q, count := range counts {
		if count == 0 {
			continue
		}
		opened := len(args) + 1
		args = append(args, -q-1, 0)
		for i := range parcels {
			if a := &parcels[i]; a.open && a.p.place == q {
				args = append(args, &a.p.field)
			}
		}
		if n := len(args) - 1 - opened; n > 0 {
			args[opened] = n
		} else {
			args = args[:opened-1]
		}
		fields, whole := len(args)+1, false
		args = append(args, q+1, 0)
		name, suspect := f.names[q%len(f.names)], q >= len(f.names)
		for i := range acks {
			if acks[i].Queue != name || acks[i].Suspect != suspect || !f.owns(in, acks[i]) {
				continue
			}
			if p := acks[i].Parcel; p != nil {
				if a := parcels.of(p); !a.open && a.whole() {
					a.sent, whole = true, true
					continue
				}
			}
			args = append(args, &acks[i].Receipt)
		}
		if n := len(args) - 1 - fields; n > 0 {
			args[fields] = n
		} else {
			args = args[:fields-1]
		}
		if !whole {
			continue
		}
		fields = len(args) + 1
		args = append(args, strconv.Itoa(q+1)+"+", 0)
		for i := range parcels {
			if a := &parcels[i]; a.sent && a.p.place == q {
				args = append(args, &a.p.field, &a.p.list)
			}
		}
		args[fields] = len(args) - 1 - fields
	}
	return args, parcels
}

// shipped notes what became of parcels.
func (f *reliable) shipped(parcels shipment) {
	if len(parcels) == 0 {
		return
	}
	whole, opened := parcels.arrived()
	f.mu.Lock()
	f.thrift.note(whole, opened)
	f.mu.Unlock()
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
//
// An error when a parcel does not hold what the script has put there: a rescuer was
// quicker, or Redis has lost its data in between. Then the next call finds out.
func (f *reliable) units(in *incarnation, prefix string, reply []string, lists [][]string, looked bool) (got taken, err error) {
	if len(reply) > 0 {
		n := len(f.names)
		got.units = make([]Unit, 0, countUnits(reply))
		readReply(reply, func(q int, jobs []string) {
			if q >= n {
				got.lapped += len(jobs)
			}
			u := Unit{Queue: f.names[q%n], Incarnation: in.n}
			for _, job := range jobs {
				u.Payload = bytesOf(job)
				got.units = append(got.units, u)
			}
		}, func(q, count, number int) {
			if number >= len(lists) || len(lists[number]) != count {
				err = fmt.Errorf("parcel %d of call %s does not hold %d units", number, prefix, count)
				return
			}
			if q >= n {
				got.lapped += count
			}
			u := Unit{Queue: f.names[q%n], Incarnation: in.n, Parcel: &Parcel{
				place: q % n, size: count, field: parcel.Field(receiptAt(prefix, len(got.units))),
				list: keys.Parcels(in.id, prefix) + strconv.Itoa(number),
			}}
			for _, job := range lists[number] {
				u.Payload = bytesOf(job)
				got.units = append(got.units, u)
			}
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
	if err != nil {
		return got, err
	}
	if looked {
		f.peeks.pause(got.paused)
		f.bell.passOver(got.paused)
	}
	for i, receipt := range receipts(prefix, len(got.units)) {
		got.units[i].Receipt = receipt
	}
	return got, nil
}

// readReply walks through (i, count, job*)*, (i, -count, number of a parcel), (-i, error
// text or "" for a paused queue) and (0, seat); q counts from 0 and is -1 for the seat.
func readReply(reply []string, units func(q int, jobs []string), share func(q, count, number int), problem func(q int, text string)) {
	for len(reply) >= 2 {
		i := atoi(reply[0])
		if i <= 0 {
			problem(-i-1, reply[1])
			reply = reply[2:]
			continue
		}
		count := atoi(reply[1])
		if count < 0 {
			share(i-1, -count, atoi(reply[2]))
			reply = reply[3:]
			continue
		}
		units(i-1, reply[2:2+count])
		reply = reply[2+count:]
	}
}

func countUnits(reply []string) (n int) {
	readReply(reply, func(_ int, jobs []string) { n += len(jobs) }, func(_, count, _ int) { n += count }, func(int, string) {})
	return n
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
