package scores

import (
	"math"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func checkScore(t interface{ Fatalf(string, ...any) }, f float64) {
	if got, want := string(Append(nil, f)), strconv.FormatFloat(f, 'f', -1, 64); got != want {
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

func TestScore(t *testing.T) {
	if got := Of(time.Unix(1795225033, 535225400)); got != 1795225033.5352254 {
		t.Errorf("got %v", got)
	}
	for f, want := range map[float64]string{
		1795225033.5352254: "1795225033.5352254", 1795225033: "1795225033", 0: "0", 1e21: "1000000000000000000000",
		1e-7: "0.0000001", -5: "-5", math.Inf(1): "+Inf", math.Inf(-1): "-Inf",
	} {
		if got := Format(f); got != want {
			t.Errorf("Format(%g) = %s, want %s", f, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "score")
		if got, err := strconv.ParseFloat(Format(f), 64); err != nil || got != f {
			t.Fatalf("%g reads back as %g", f, got)
		}
	})
}

// BenchmarkAppend. Budget: 0.6 of strconv's time for a score in whole milliseconds,
// no allocation.
func BenchmarkAppend(b *testing.B) {
	const score = 1795224881.153
	buf := make([]byte, 0, 32)
	b.Run("here", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = Append(buf[:0], score)
		}
	})
	b.Run("strconv", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = strconv.AppendFloat(buf[:0], score, 'f', -1, 64)
		}
	})
}
