package laravel

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

// seeds are texts that PHP has written: some of testdata/objects.php, and a job of Laravel.
func seeds(tb testing.TB) []string {
	tb.Helper()
	quoted := harness.Must(os.ReadFile("testdata/seeds.txt"))(tb)
	all := []string{resize(tb)}
	for line := range strings.Lines(string(quoted)) {
		var text string
		if _, err := fmt.Sscanf(line, "%q", &text); err != nil {
			tb.Fatalf("%v: %s", err, line)
		}
		all = append(all, text)
	}
	return all
}

// resize is a job of illuminate/queue 8.83.26 with SerializesModels.
func resize(tb testing.TB) string {
	tb.Helper()
	text := harness.Must(os.ReadFile("testdata/resize.txt"))(tb)
	return string(text)
}

// allocated returns how many bytes f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// perByte is how much ParseObject may allocate for a byte of its text. The worst is an object of
// properties i:0;N;, 6 bytes that make a key and a value of 16 bytes each, a Property of 48, and
// one more of the numbered values, which grow by copying; with the race detector, 41 bytes in all.
const perByte = 64

// bounded reads a text, valid or not, and fails if that took more memory than it may. The parser
// makes at most so many steps as there are values, each of which takes 2 bytes at least.
func bounded(tb testing.TB, text string) (*Object, error) {
	tb.Helper()
	var o *Object
	var err error
	bytes := allocated(func() { o, err = ParseObject(text) })
	if most := perByte*len(text) + 64<<10; bytes > most { // other goroutines may allocate as well
		tb.Errorf("%d bytes for a text of %d, at most %d expected: %.200q", bytes, len(text), most, text)
	}
	if (o == nil) == (err == nil) {
		tb.Errorf("%v and %v: %.200q", o, err, text)
	}
	return o, err
}

func FuzzParseObject(f *testing.F) {
	for _, text := range seeds(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if o, err := bounded(t, text); err == nil {
			o.Data()
			o.chained()
			_, _ = o.Time("at")
			once(o)
		}
	})
}

// once visits everything once: what R: shares may be in itself.
func once(v any) {
	seen := map[any]bool{}
	var visit func(v any)
	visit = func(v any) {
		if seen[v] {
			return
		}
		switch v := v.(type) {
		case *Object:
			seen[v] = true
			for _, p := range v.Properties {
				visit(p.Value)
			}
		case *Array:
			seen[v] = true
			v.List()
			for i, key := range v.Keys {
				v.Get(key)
				visit(v.Values[i])
			}
		}
	}
	visit(v)
}

// Changed texts give an error or another object, never more.
func TestMutatedObjects(t *testing.T) {
	texts := seeds(t)
	random := rand.New(rand.NewPCG(7, 7))
	pieces := []string{"a:3:{", "O:1:\"A\":2:{", "}", "r:1;", "R:2;", "N;", "i:0;", "s:1:\"", "99999999999", "-", "\x00", "C:1:\"A\":2:{", "\"", ";", ":", "E:3:\"A:B\";"}
	valid, invalid := 0, 0
	for range 10_000 {
		text := []byte(texts[random.IntN(len(texts))])
		for range 1 + random.IntN(3) {
			at := random.IntN(len(text))
			to := min(at+random.IntN(20), len(text))
			switch random.IntN(5) {
			case 0:
				text[at] = byte(random.IntN(256))
			case 1:
				text = append(text[:at:at], text[to:]...)
			case 2:
				text = append(text[:at:at], append([]byte(pieces[random.IntN(len(pieces))]), text[to:]...)...)
			case 3: // one more digit, or another
				if digit := bytes.IndexAny(text[at:], "0123456789"); digit >= 0 {
					text[at+digit] = byte('0' + random.IntN(10))
				}
			case 4:
				text = append(text[:to:to], text[at:]...)
			}
			if len(text) == 0 {
				text = []byte("O")
			}
		}
		if _, err := bounded(t, string(text)); err == nil {
			valid++
		} else {
			invalid++
		}
	}
	if valid < 500 || invalid < 5000 {
		t.Errorf("%d are valid and %d are not", valid, invalid)
	}
}

// Texts that are made to cost much cost no more than their length.
func TestHostileObjects(t *testing.T) {
	const size = 1 << 20
	repeat := func(s string) string { return strings.Repeat(s, size/len(s)) }
	n := maxDepth - 2
	count := size / minEntry
	for name, c := range map[string]struct{ text, want string }{
		"nested as in a trap for others": {with(strings.Repeat("a:1:{i:0;", 40) + "N;" + strings.Repeat("}", 40)), ""},
		"a huge count":                   {with("a:2000000000:{"), "the size 2000000000"},
		"a huge count of properties":     {`O:1:"A":9223372036854775807:{`, "the size 9223372036854775807"},
		"more than an int":               {with("a:9999999999999999999:{"), "64-bit"},
		"each level claims all":          {with(strings.Repeat(fmt.Sprintf("a:%d:{i:0;", count-n*3), n) + repeat("i:0;N;")), "the size"},
		"each level claims its share":    {with(strings.Repeat("a:40:{i:0;", n) + repeat("i:0;N;")), "expected a key"},
		"short entries":                  {fmt.Sprintf(`O:1:"A":%d:{`, count) + repeat("i:0;N;") + "}", ""},
		"short entries of an array":      {with(fmt.Sprintf("a:%d:{", count) + repeat("i:0;N;") + "}"), ""},
		"references to all":              {with(fmt.Sprintf("a:%d:{", size/8) + repeat("i:0;r:1;") + "}"), ""},
		"deeper than allowed":            {with(repeat("a:1:{i:0;")), "one more level"},
		"deeper by objects":              {with(repeat(`O:1:"A":1:{i:0;`)), "one more level"},
		"a number without end":           {with("i:" + repeat("1")), "the end"},
		"a float without end":            {with("d:" + repeat("1") + ";"), ""},
		"a length without end":           {with("s:" + repeat("0") + "1:\"a\";"), ""},
		"scopes of one name":             {`O:1:"A":1:{s:` + fmt.Sprint(size) + `:"` + repeat("\x00") + `";N;}`, ""},
	} {
		_, err := bounded(t, c.text)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if (said == "") != (c.want == "") || !strings.Contains(said, c.want) || len(said) > 200 {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Twice the text takes twice the allocations, not their square.
func TestParseObjectIsLinear(t *testing.T) {
	for name, text := range map[string]func(n int) string{
		"nested": func(n int) string { return with(strings.Repeat("a:1:{i:0;", n) + "N;" + strings.Repeat("}", n)) },
		"flat":   func(n int) string { return with(fmt.Sprintf("a:%d:{", n) + strings.Repeat("i:0;a:0:{}", n) + "}") },
		"shared": func(n int) string { return with(fmt.Sprintf("a:%d:{", n) + strings.Repeat("i:0;R:2;", n) + "}") },
	} {
		cost := func(n int) float64 {
			s := text(n)
			return testing.AllocsPerRun(10, func() {
				if _, err := ParseObject(s); err != nil {
					t.Error(name, err)
				}
			})
		}
		if once, twice := cost(1500), cost(3000); twice > 2*once+10 {
			t.Errorf("%s: %v allocations, and %v for twice the text", name, once, twice)
		}
	}
}
