package job_test

import (
	"encoding/json"
	"testing"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/harness"
)

type benchArgs struct {
	Name  string `arg:"0"`
	Count int    `arg:"1"`
}

func BenchmarkEncodeArgs(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		harness.Must(job.EncodeArgs(benchArgs{"bob", 5}))(b)
	}
}

// BenchmarkEncodeRaw rewrites the text of arguments as PushJSON does.
func BenchmarkEncodeRaw(b *testing.B) {
	for name, text := range map[string]string{
		"plain":  `[42,"a plain string of some length",{"id":123456,"name":"bob","tags":["x","y"]},true,null]`,
		"floats": `[1.5,0.25,1e3,1795224881.1534805,-12.75]`,
	} {
		b.Run(name, func(b *testing.B) {
			raw := json.RawMessage(text)
			b.ReportAllocs()
			for b.Loop() {
				harness.Must(job.EncodeJSON(raw))(b)
			}
		})
	}
}
