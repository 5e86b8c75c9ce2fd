// Package parcel reads private places, the hashes receipt -> payload of what a
// fetcher has in progress. Units that one call took from one queue share a field
// there, a parcel: its name is the receipt of the oldest with a "+" behind it, its
// value their payloads, the newest first, with a 0 byte between them. The scripts
// of package fetch write parcels and open them; see parcel.lua there.
package parcel

import (
	"iter"
	"maps"
	"strings"
)

const (
	// Size is how many units share a parcel. It is small: the sooner all of its
	// units are done, the rarer it has to be opened for one of them.
	Size = 32

	suffix = "+"
	digits = "0123456789abcdefghijklmnopqrstuvwxyz"
)

// Least is how many units a call must ask for to get parcels: those of a few slow
// jobs would be opened one by one. A simulation sets it before there is a fetcher.
var Least = Size

// Field is the name of the parcel whose oldest unit has this receipt.
func Field(receipt string) string { return receipt + suffix }

// Units yields receipt and payload of each unit that a field of a private place
// holds, the newest first.
func Units(field, value string) iter.Seq2[string, string] {
	return func(yield func(receipt, payload string) bool) {
		first, ok := strings.CutSuffix(field, suffix)
		if !ok || len(first) < 3 {
			yield(field, value)
			return
		}
		prefix, last := first[:len(first)-2], first[len(first)-2:]
		x := 36*strings.IndexByte(digits, last[0]) + strings.IndexByte(digits, last[1]) + strings.Count(value, "\x00")
		for ; ; x-- {
			payload, rest, more := strings.Cut(value, "\x00")
			receipt := prefix + digits[x/36:x/36+1] + digits[x%36:x%36+1]
			if !yield(receipt, payload) || !more {
				return
			}
			value = rest
		}
	}
}

// Count is how many units a field of a private place holds.
func Count(field, value string) int {
	if !strings.HasSuffix(field, suffix) {
		return 1
	}
	return strings.Count(value, "\x00") + 1
}

// Open returns a private place as if each unit had a field of its own.
func Open(fields map[string]string) map[string]string {
	units := make(map[string]string, len(fields))
	for field, value := range fields {
		maps.Insert(units, Units(field, value))
	}
	return units
}

// Payloads are those of a whole private place.
func Payloads(fields map[string]string) []string {
	payloads := make([]string, 0, len(fields))
	for field, value := range fields {
		for _, payload := range Units(field, value) {
			payloads = append(payloads, payload)
		}
	}
	return payloads
}
