package wirejson

import (
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func checkScore(t interface{ Fatalf(string, ...any) }, f float64) {
	if got, want := string(AppendScore(nil, f)), strconv.FormatFloat(f, 'f', -1, 64); got != want {
		t.Fatalf("%b is written as %s, want %s", f, got, want)
	}
}

func TestScoresAreAsStrconvWritesThem(t *testing.T) {
	for _, f := range []float64{
		0, math.Copysign(0, -1), 1, 0.5, 1e-6, 1e-7, 0.000123, 0.1 + 0.2, 999999.999999, 1e6, -1.5, -1e-6, 1<<32 - 1, 1 << 32, 1<<32 - 1e-6, 1<<53 + 1, 1e21,
		1795224881.1534805, 1795224881.153557, 1795225244, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64, math.SmallestNonzeroFloat64,
	} {
		checkScore(t, f)
		checkScore(t, math.Nextafter(f, math.Inf(1)))
		checkScore(t, math.Nextafter(f, math.Inf(-1)))
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(0, 1<<33*1e6).Draw(t, "millionths")
		for _, unit := range []float64{1, 1e3, 1e6, 1e7, 1e9} {
			f := float64(n) / unit
			checkScore(t, f)
			checkScore(t, math.Nextafter(f, math.Inf(1)))
			checkScore(t, math.Nextafter(f, 0))
		}
		checkScore(t, math.Float64frombits(rapid.Uint64().Draw(t, "bits")))
	})
}

// BenchmarkAppendScore. Budget: 0.6 of strconv's time for a score in whole milliseconds,
// no allocation.
func BenchmarkAppendScore(b *testing.B) {
	const score = 1795224881.153
	buf := make([]byte, 0, 32)
	b.Run("here", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = AppendScore(buf[:0], score)
		}
	})
	b.Run("strconv", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = strconv.AppendFloat(buf[:0], score, 'f', -1, 64)
		}
	})
}
