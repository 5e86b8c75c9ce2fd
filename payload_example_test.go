package troupe_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupehq/troupe"
)

// What a job of another program says of itself, read field by field.
func ExamplePayload_DisplayClass() {
	p, err := troupe.ParsePayload([]byte(`{"class":"Wrapper","wrapped":"Report","args":[],"jid":"5f0c","created_at":1795000000.5,"cost":7.25}`))
	if err != nil {
		panic(err)
	}
	at, _ := p.Time("created_at")
	cost, _ := p.Number("cost") // without its fraction
	fmt.Println(p.Class(), p.Wrapped(), p.DisplayClass(), at.UTC().Format(time.DateTime), cost)
	p.Set("cost", []byte(`1e3`))
	fmt.Println(slices.Collect(p.Keys()), p.Rewritable(), p.ValidUTF8())
	// Output:
	// Wrapper Report Report 2026-11-18 11:06:40 7
	// [class wrapped args jid created_at cost] <nil> true
}

// Tidy is a class of which one job at a time waits or runs, one runs at once, and none is retried.
type Tidy struct{ Folder string }

func (Tidy) Class() string { return "Tidy" }

func (Tidy) Defaults() troupe.Options {
	return troupe.Options{
		Queue: "low", Retries: troupe.Never(), Unique: &troupe.Unique{For: time.Hour},
		Limits: []troupe.Limit{{Name: "tidy", AtOnce: 1}},
	}
}

// The options of a type are checked as it is registered, and can be read.
func ExampleDefaultsOf() {
	o, err := troupe.DefaultsOf(Tidy{})
	fmt.Println(o.Queue, o.Retries == troupe.Never(), err)
	fmt.Println(o.Unique.Validate(), o.Limits[0].Validate())
	fmt.Println(troupe.Limit{Name: "tidy"}.Validate())
	// Output:
	// low true <nil>
	// <nil> <nil>
	// limit "tidy": AtOnce is 0 and Rate is 0, expected one of them above 0
}

// The keys of encrypted arguments have versions: the highest seals, all open. They are never printed.
func ExampleEncryption() {
	e := troupe.Encryption{Keys: map[int][]byte{1: make([]byte, 32), 2: make([]byte, 32)}}
	fmt.Println(e.Versions(), e.Sealing(), e.Validate())
	fmt.Println(e)
	// Output:
	// [1 2] 2 <nil>
	// key versions 1, 2; 2 seals
}
