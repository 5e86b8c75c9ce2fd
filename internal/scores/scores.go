// Package scores has the scores of sorted sets and the timestamps of payloads: seconds since
// the epoch, and their exact texts.
package scores

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"
)

// Of returns t as a score: seconds since the epoch. A double holds today's times to about
// a quarter of a microsecond.
func Of(t time.Time) float64 {
	return float64(t.Unix()) + float64(t.Nanosecond())/1e9
}

// Format returns the text of a score, see Append.
func Format(f float64) string { return string(Append(make([]byte, 0, 24), f)) }

// Words tells the score of an entry that is due at no time before the year 10000.
func Words(f float64) string {
	if math.Abs(f) > 1e18 { // not 300 digits
		return "score " + strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64))
	}
	return "score " + Format(f)
}

// TimeRoom is more than the text of a timestamp takes.
const TimeRoom = 24

// AppendTime adds the timestamp t to b, which is empty: integer milliseconds, as Sidekiq 8
// writes them, or seconds as Sidekiq 6 and 7 do, a number with one to seven decimals, the
// shortest that reads back as the same double, so that Ruby writes the same bytes again.
func AppendTime(b []byte, t time.Time, millis bool) []byte {
	if millis {
		return strconv.AppendInt(b, t.UnixMilli(), 10)
	}
	s := Of(t)
	b = Append(b, s)
	if dot := bytes.IndexByte(b, '.'); dot < 0 {
		b = append(b, '.', '0')
	} else if len(b)-dot-1 > 7 {
		// Times before September 2001 have a digit to spare in a double.
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(s, 'f', 7, 64), 64)
		b = strconv.AppendFloat(b[:0], rounded, 'f', -1, 64)
		if rounded == math.Trunc(rounded) {
			b = append(b, '.', '0')
		}
	}
	return b
}

// millionthsMax is below what the proof in Append needs: doubles up to there are
// closer together than millionths.
const millionthsMax = 1 << 32

// Append adds to b the shortest decimal text that reads back as f, without an
// exponent, since Sidekiq finds a member again by its exact score. Infinities give "+Inf"
// and "-Inf", which Redis accepts as bounds. What is a whole number of millionths, as times
// mostly are, takes 0.6 of the time that strconv needs.
//
// Two decimals with at most six places are 1e-6 apart or equal. Doubles below 2^32
// are at most 4.8e-7 apart, so no more than one such decimal reads as f. If there is
// one, a shorter text would be another, and there is none.
func Append(b []byte, f float64) []byte {
	if f > 0 && f < millionthsMax {
		n := uint64(f*1e6 + 0.5)
		if float64(n)/1e6 == f {
			return millionths(b, n)
		}
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}

// millionths adds n/1e6 without zeros in the end.
func millionths(b []byte, n uint64) []byte {
	b = strconv.AppendUint(b, n/1e6, 10)
	rest := uint32(n % 1e6)
	if rest == 0 {
		return b
	}
	b = append(b, '.', 0, 0, 0, 0, 0, 0)
	end := 0
	for i := 1; i <= 6; i++ {
		d := byte(rest % 10)
		if rest /= 10; d != 0 && end == 0 {
			end = i
		}
		b[len(b)-i] = '0' + d
	}
	return b[:len(b)-end+1]
}
