package laravel

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/redistest"
)

// php runs a script of testdata and returns what it prints.
func php(t testing.TB, stdin string, args ...string) []byte {
	t.Helper()
	if _, err := exec.LookPath("php"); err != nil {
		redistest.Missing(t, err)
	}
	run := exec.CommandContext(t.Context(), "php", args...)
	run.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	run.Stderr = &stderr
	out, err := run.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("php %s: %v\n%s%s", args, err, stderr.Bytes(), out)
	}
	return out
}

// written is an object that PHP has serialized.
type written struct {
	Name string
	Text []byte
	View json.RawMessage
	Time string // of the property at
}

func phpObjects(t testing.TB, args ...string) []written {
	t.Helper()
	var all []written
	for line := range bytes.Lines(php(t, "", append([]string{"testdata/objects.php"}, args...)...)) {
		var w written
		if err := json.Unmarshal(line, &w); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, w)
	}
	return all
}

// viewer shows values as testdata/objects.php does: strings in base64, floats by their bits, an
// object that was shown before as r and its number among all objects.
type viewer map[*Object]int

func (w viewer) view(v any) any {
	text := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	switch v := v.(type) {
	case bool:
		return []any{"b", v}
	case int64:
		return []any{"i", fmt.Sprint(v)}
	case float64:
		if math.IsNaN(v) {
			return []any{"d", "NAN"}
		}
		return []any{"d", fmt.Sprintf("%016x", math.Float64bits(v))}
	case string:
		return []any{"s", text(v)}
	case *Array:
		entries := []any{}
		for i, key := range v.Keys {
			if s, ok := key.(string); ok {
				key = text(s)
			}
			entries = append(entries, []any{key, w.view(v.Values[i])})
		}
		return []any{"a", entries}
	case Enum:
		return []any{"E", v.Class, v.Case}
	case Opaque:
		return []any{"C", v.Class, text(v.Bytes)}
	case *Object:
		if n, ok := w[v]; ok {
			return []any{"r", n}
		}
		w[v] = len(w) + 1
		properties := []any{}
		for _, p := range v.Properties {
			name := p.Name
			if p.Scope != "" {
				name = "\x00" + p.Scope + "\x00" + name
			}
			properties = append(properties, []any{text(name), w.view(p.Value)})
		}
		return []any{"O", v.Class, properties}
	}
	return []any{"N"}
}

// diff shows where PHP's view and ours part.
func (w written) diff(o *Object) string {
	view, err := json.Marshal(viewer{}.view(o))
	if err != nil {
		return err.Error()
	}
	if bytes.Equal(view, w.View) {
		return ""
	}
	n := 0
	for n < min(len(view), len(w.View)) && view[n] == w.View[n] {
		n++
	}
	return fmt.Sprintf("…%s\n%s\n%s\n", view[max(0, n-100):n], w.View[n:], view[n:])
}

// What PHP writes is read as PHP itself reads it.
func TestPHPObjects(t *testing.T) {
	objects := phpObjects(t, "cases")
	for _, w := range objects {
		o, err := ParseObject(string(w.Text))
		if err != nil {
			t.Errorf("%s: %v\n%q", w.Name, err, w.Text)
			continue
		}
		if diff := w.diff(o); diff != "" {
			t.Errorf("%s (-PHP +Go): %s%q", w.Name, diff, w.Text)
		}
		if w.Time == "" {
			continue
		}
		if at, err := o.Time("at"); err != nil || fmt.Sprintf("%d.%06d", at.Unix(), at.Nanosecond()/1000) != w.Time {
			t.Errorf("%s: %v, %v, want %s", w.Name, at, err, w.Time)
		}
	}
	if len(objects) < 90 {
		t.Errorf("%d objects", len(objects))
	}
}

// Graphs of objects with shared places: all numbers of values must be right.
func TestPHPGraphs(t *testing.T) {
	references := 0
	for _, w := range phpObjects(t, "random", "1") {
		references += bytes.Count(w.Text, []byte("r:")) + bytes.Count(w.Text, []byte("R:"))
		if o, err := ParseObject(string(w.Text)); err != nil {
			t.Errorf("%s: %v\n%q", w.Name, err, w.Text)
		} else if diff := w.diff(o); diff != "" {
			t.Errorf("%s (-PHP +Go): %s%q", w.Name, diff, w.Text)
		}
	}
	if references < 500 {
		t.Errorf("%d references", references)
	}
}

// The class of a C: counts values that only it knows. A reference behind it is an error, for it
// could be read as that to another value.
func TestPHPOpaque(t *testing.T) {
	text := string(php(t, "", "-d", "error_reporting=0", "-r", `
		class Old implements Serializable {
			function serialize() { return serialize([1, 2]); }
			function unserialize($text) {}
		}
		$o = new stdClass;
		echo serialize((object) ['old' => new Old, 'a' => $o, 'b' => $o]);`))
	_, err := ParseObject(text)
	if want := "is value 6, expected 1 to 2, values that are known"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s\n%s", err, want, text)
	}
}
