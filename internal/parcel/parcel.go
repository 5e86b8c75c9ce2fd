// Package parcel reads private places, the hashes receipt -> payload of what a
// fetcher has in progress. Units that one call took from one queue share a field
// there, a parcel: its name is the receipt of the oldest with a "+" behind it, its
// value their number, a space, and the key of the list that has their payloads, the
// oldest first. The scripts of package fetch make parcels and open them; see
// parcel.lua there.
package parcel

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

const (
	// Size is how many units share a parcel. It is small: the sooner all of its
	// units are done, the rarer it has to be opened for one of them.
	Size = 64

	suffix = "+"
	digits = "0123456789abcdefghijklmnopqrstuvwxyz"
)

// Least is how many units a call must ask for to get parcels: those of a few slow
// jobs would be opened one by one. A simulation sets it before there is a fetcher.
var Least = 32

// Field is the name of the parcel whose oldest unit has this receipt.
func Field(receipt string) string { return receipt + suffix }

// Label returns the number of units and the list of a parcel; ok is false for a field
// of a private place that is a unit of its own.
func Label(field, value string) (count int, list string, ok bool) {
	if !strings.HasSuffix(field, suffix) || len(field) < 5 {
		return 0, "", false
	}
	number, list, ok := strings.Cut(value, " ")
	count, err := strconv.Atoi(number)
	return count, list, ok && err == nil
}

// Count is how many units a field of a private place holds.
func Count(field, value string) int {
	if count, _, ok := Label(field, value); ok {
		return count
	}
	return 1
}

// Receipt is that of a unit of a parcel, the oldest being number 0.
func Receipt(field string, number int) string {
	first := strings.TrimSuffix(field, suffix)
	prefix, last := first[:len(first)-3], first[len(first)-3:]
	x := 0
	for i := range last {
		x = 36*x + strings.IndexByte(digits, last[i])
	}
	x += number
	return prefix + string([]byte{digits[x/1296], digits[x/36%36], digits[x%36]})
}

// tries is how often Read begins anew after it has met a parcel that was just
// acked or opened.
const tries = 5

// Read returns the payloads of a private place by receipt, as if each unit had a field
// of its own. It reads in several steps: of what changes meanwhile it may see
// either state.
func Read(ctx context.Context, rdb redis.Cmdable, place string) (map[string]string, error) {
	for try := 1; ; try++ {
		units, whole, err := read(ctx, rdb, place)
		if err != nil || whole || try == tries {
			return units, err
		}
	}
}

func read(ctx context.Context, rdb redis.Cmdable, place string) (units map[string]string, whole bool, err error) {
	fields, err := rdb.HGetAll(ctx, place).Result()
	if err != nil {
		return nil, false, err
	}
	units, whole = make(map[string]string, len(fields)), true
	for field, value := range fields {
		count, list, ok := Label(field, value)
		if !ok {
			units[field] = value
			continue
		}
		payloads, err := rdb.LRange(ctx, list, 0, -1).Result()
		if err != nil {
			return nil, false, err
		}
		whole = whole && len(payloads) == count
		for i, payload := range payloads {
			units[Receipt(field, i)] = payload
		}
	}
	return units, whole, nil
}

// Payloads are those of a whole private place.
func Payloads(ctx context.Context, rdb redis.Cmdable, place string) ([]string, error) {
	units, err := Read(ctx, rdb, place)
	payloads := make([]string, 0, len(units))
	for _, payload := range units {
		payloads = append(payloads, payload)
	}
	return payloads, err
}
