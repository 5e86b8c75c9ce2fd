package fetch

import (
	"cmp"
	"strconv"
	"strings"
)

// maxTake bounds one call, and with it for how long others wait for Redis: one to two
// milliseconds, about four where there are no parcels. Three base 36 digits number the
// units, and it is a number of whole parcels.
const maxTake = 2560

const digits = "0123456789abcdefghijklmnopqrstuvwxyz"

// A receipt is the number of its call in base 36 followed by three base 36 digits
// that number the unit within the call. Receipts of one fetcher are never
// reused and ascend in the order of the fetch: by length, then by bytes.

// receiptPrefix is the receipt of a call's units without their last three digits.
func receiptPrefix(call uint64) string { return strconv.FormatUint(call, 36) }

// receipts returns the first n receipts of a call, all cut from one string.
func receipts(prefix string, n int) []string {
	size := len(prefix) + 3
	var all strings.Builder
	all.Grow(n * size)
	for i := range n {
		d := number(i)
		all.WriteString(prefix)
		all.Write(d[:])
	}
	out := make([]string, n)
	for i := range out {
		out[i] = all.String()[i*size : (i+1)*size]
	}
	return out
}

// receiptAt is the receipt of unit i of a call.
func receiptAt(prefix string, i int) string {
	d := number(i)
	return prefix + string(d[:])
}

func number(i int) [3]byte { return [3]byte{digits[i/1296], digits[i/36%36], digits[i%36]} }

// compareReceipts orders by age, the oldest first.
func compareReceipts(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
