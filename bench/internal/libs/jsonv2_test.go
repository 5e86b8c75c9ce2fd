//go:build goexperiment.jsonv2

package libs

import (
	jsonv2 "encoding/json/v2"
	"testing"
)

// BenchmarkPayloadV2 is BenchmarkPayload with the standard library's next version.
func BenchmarkPayloadV2(b *testing.B) {
	raw := []byte(payload)
	b.ReportAllocs()
	for b.Loop() {
		var j job
		if err := jsonv2.Unmarshal(raw, &j); err != nil {
			b.Fatal(err)
		}
	}
}
