package fetch

import (
	"cmp"
	"strconv"
	"strings"
)

// maxTake bounds one call: two base 36 digits number its units, 1,296 at most, and
// it is a number of whole parcels.
const maxTake = 1280

const digits = "0123456789abcdefghijklmnopqrstuvwxyz"

// A receipt is the number of its call in base 36 followed by two base 36 digits
// that number the unit within the call. Receipts of one fetcher are never
// reused and ascend in the order of the fetch: by length, then by bytes.

// receiptPrefix is the receipt of a call's units without their last two digits.
func receiptPrefix(call uint64) string { return strconv.FormatUint(call, 36) }

// receipts returns the first n receipts of a call, all cut from one string.
func receipts(prefix string, n int) []string {
	size := len(prefix) + 2
	var all strings.Builder
	all.Grow(n * size)
	for i := range n {
		all.WriteString(prefix)
		all.WriteByte(digits[i/36])
		all.WriteByte(digits[i%36])
	}
	out := make([]string, n)
	for i := range out {
		out[i] = all.String()[i*size : (i+1)*size]
	}
	return out
}

// receiptAt is the receipt of unit i of a call.
func receiptAt(prefix string, i int) string {
	return prefix + digits[i/36:i/36+1] + digits[i%36:i%36+1]
}

// compareReceipts orders by age, the oldest first.
func compareReceipts(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
