package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/control"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// shape is what is known of the values at a path: how many there are, of which types.
type shape struct {
	n     int
	types map[string]bool
}

type shapes map[string]*shape

// byName are objects whose keys are names: of queues.
var byName = map[string]bool{"queues": true}

func (s shapes) add(path string, value any) {
	at := s[path]
	if at == nil {
		at = &shape{types: map[string]bool{}}
		s[path] = at
	}
	at.n++
	switch v := value.(type) {
	case map[string]any:
		at.types["object"] = true
		for key, inner := range v {
			if byName[path] {
				key = "*"
			}
			s.add(strings.TrimPrefix(path+"."+key, "."), inner)
		}
	case []any:
		at.types["array"] = true
		for _, inner := range v {
			s.add(path+"[]", inner)
		}
	case nil:
		at.types["null"] = true
	case json.Number:
		at.types["number"] = true
	default:
		at.types[fmt.Sprintf("%T", v)] = true
	}
}

// String is a line for each path: its types, and a ? if not every object has it.
func (s shapes) String() string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(s)) {
		mark := ""
		if parent := path[:max(0, strings.LastIndexByte(path, '.'))]; !strings.HasSuffix(path, "[]") && path != "" && s[path].n < s[parent].n {
			mark = "?"
		}
		fmt.Fprintf(&b, "%s%s %s\n", path, mark, strings.Join(slices.Sorted(maps.Keys(s[path].types)), "|"))
	}
	return b.String()
}

// answers has the process of troupe in fill answer requests: it has configured itself, and no
// job that is to be cancelled is its.
func answers(t *testing.T, rdb *redis.Client) {
	t.Helper()
	const ours = "vm:9:0123456789ab"
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			requests, _ := control.Requests(ctx, rdb, ours, time.Second)
			for _, r := range requests {
				reply := control.Reply{Process: ours, Result: control.Done}
				if r.Do == control.Cancel {
					reply.Result = control.NotMine
				}
				_ = control.Answer(ctx, rdb, r, reply)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

const shapesFile = "testdata/json.golden"

// With --json every command prints objects, one a line, with the fields and types of a list that
// is kept: a field that vanishes or changes its type is noticed. go test ./cmd/troupe -run
// TestShapesOfJSON -update writes the list.
func TestShapesOfJSON(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(lines)) {
		rdb, url := redistest.New(t)
		fill(t, rdb)
		answers(t, rdb)
		all := shapes{}
		variants := []string{lines[path]}
		switch path {
		case "jobs list":
			variants = append(variants, "jobs list dead", "jobs list scheduled", "jobs list running", "jobs list queue:default")
		case "queues", "queues list":
			variants = append(variants, path+" --over 10ms")
		case "jobs export":
			variants = append(variants, "jobs export queue:default")
		case "jobs delete":
			variants = append(variants, "jobs delete dead --all --dry-run")
		case "inflight":
			variants = append(variants, "inflight --jobs")
		case "rescue":
			variants = append([]string{"rescue --dry-run"}, variants...)
		case "explain":
			variants = append(variants, "explain q1", "explain walks", "explain nobody")
		}
		for _, line := range variants {
			got := call(t.Context(), append(wordsOf(line, export(t)), "--json", "--redis", url)...)
			if got.code != 0 && path != "doctor" && line != "explain nobody" {
				t.Errorf("%s: %s", line, got)
			}
			for text := range strings.Lines(got.out) {
				d := json.NewDecoder(strings.NewReader(text))
				d.UseNumber()
				var value map[string]any
				if err := d.Decode(&value); err != nil || d.More() {
					t.Errorf("%s prints %q, expected one object a line (%v)", line, text, err)
					continue
				}
				all.add("", value)
			}
		}
		fmt.Fprintf(&b, "## %s\n%s\n", path, all)
	}
	if *update {
		if err := os.WriteFile(shapesFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(shapesFile)
	if err != nil || b.String() != string(want) {
		t.Errorf("%v: the shapes are\n%s\nexpected those of %s", err, diff(string(want), b.String()), shapesFile)
	}
}

// diff are the lines that only one of two texts has, under their heads.
func diff(want, got string) string {
	var b strings.Builder
	for _, side := range []struct{ sign, text, other string }{{"-", want, got}, {"+", got, want}} {
		head := ""
		others := map[string]bool{}
		for line := range strings.Lines(side.other) {
			if strings.HasPrefix(line, "## ") {
				head = line
			}
			others[head+line] = true
		}
		for line := range strings.Lines(side.text) {
			if strings.HasPrefix(line, "## ") {
				head = line
			}
			if !others[head+line] {
				fmt.Fprintf(&b, "%s %s: %s", side.sign, strings.TrimSpace(head), line)
			}
		}
	}
	return b.String()
}
