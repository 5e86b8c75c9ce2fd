package libs

import (
	"encoding/json"
	"testing"

	"github.com/bytedance/sonic"
	goccy "github.com/goccy/go-json"

	"github.com/troupehq/troupe"
)

// payload is a job as Sidekiq's client writes it.
const payload = `{"retry":true,"queue":"default","args":["bob",5,{"deep":true}],"class":"HardJob","jid":"b4a577edbccf1d805744efa9","created_at":1710000000123,"enqueued_at":1710000000456}`

// job has the fields that every run needs.
type job struct {
	Class      string          `json:"class"`
	JID        string          `json:"jid"`
	Queue      string          `json:"queue"`
	Args       json.RawMessage `json:"args"`
	Retry      json.RawMessage `json:"retry"`
	CreatedAt  json.RawMessage `json:"created_at"`
	EnqueuedAt json.RawMessage `json:"enqueued_at"`
}

// BenchmarkPayload reads a payload, its arguments left raw.
func BenchmarkPayload(b *testing.B) {
	raw := []byte(payload)
	for _, lib := range []struct {
		name string
		read func([]byte) error
	}{
		{"troupe", func(raw []byte) error { _, err := troupe.ParsePayload(raw); return err }},
		{"encoding-json", func(raw []byte) error { return json.Unmarshal(raw, new(job)) }},
		{"goccy", func(raw []byte) error { return goccy.Unmarshal(raw, new(job)) }},
		{"sonic", func(raw []byte) error { return sonic.Unmarshal(raw, new(job)) }},
	} {
		b.Run(lib.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := lib.read(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type args struct {
	Name string         `arg:"0"`
	N    int64          `arg:"1"`
	More map[string]any `arg:"2"`
}

func (args) Class() string { return "HardJob" }

// BenchmarkArgs decodes the arguments: into a struct for troupe's typed handlers,
// into any for the others, since JSON libraries know no positional fields.
func BenchmarkArgs(b *testing.B) {
	raw := []byte(`["bob",5,{"deep":true}]`)
	for _, lib := range []struct {
		name string
		read func([]byte) error
	}{
		{"troupe", func(raw []byte) error { return troupe.DecodeArgs(raw, new(args)) }},
		{"encoding-json", func(raw []byte) error { return json.Unmarshal(raw, new([]any)) }},
		{"goccy", func(raw []byte) error { return goccy.Unmarshal(raw, new([]any)) }},
		{"sonic", func(raw []byte) error { return sonic.Unmarshal(raw, new([]any)) }},
	} {
		b.Run(lib.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := lib.read(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
