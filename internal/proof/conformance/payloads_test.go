package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// Numbers whose text a decode and an encode would change.
var oddNumbers = []string{
	"0", "-0", "-0.0", "1e3", "1E+3", "1.10", "100.0", "-7E-2", "1795225014.20", "0.1000000000000000055511151231257827",
	"123456789012345678901234567890", "-999999999999999999999999999999", "9007199254740993", "1e300", "5e-324",
}

// drawNumber draws the text of a number.
func drawNumber(t *rapid.T) string {
	if rapid.Bool().Draw(t, "odd") {
		return rapid.SampledFrom(oddNumbers).Draw(t, "number")
	}
	return fmt.Sprint(rapid.Int64().Draw(t, "integer"))
}

// oddRunes need care in JSON, in JavaScript, in HTML or in UTF-16.
var oddRunes = []rune("\u2028\u2029<>&/\"\\\b\f\n\r\t\x00\x1f\x7fé😀\U0010ffff\ufeff\ufffd")

// drawString draws the text of a string, some of its characters in escaped form.
func drawString(t *rapid.T) string {
	var b strings.Builder
	b.WriteByte('"')
	runes := rapid.SliceOfN(rapid.OneOf(rapid.Rune(), rapid.SampledFrom(oddRunes)), 0, 8).Draw(t, "runes")
	for _, r := range runes {
		switch escape := rapid.IntRange(0, 3).Draw(t, "escape"); {
		case escape == 0 && r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04X`, high, low)
		case r < ' ' || r == '"' || r == '\\' || escape == 0 && r <= 0xffff:
			if i := strings.IndexRune("\b\f\n\r\t\"\\/", r); i >= 0 && escape < 2 {
				b.WriteString(`\` + `bfnrt"\/`[i:i+1])
			} else {
				fmt.Fprintf(&b, `\u%04x`, r)
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// drawValue draws the text of a value, nested up to depth levels.
func drawValue(t *rapid.T, depth int) string {
	kinds := 5
	if depth == 0 {
		kinds = 3
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "false", "[]", "{}", "[ ]"}).Draw(t, "word")
	case 1:
		return drawNumber(t)
	case 2:
		return drawString(t)
	case 3:
		var items []string
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			items = append(items, drawValue(t, depth-1))
		}
		return "[" + strings.Join(items, drawSpace(t, ",")) + "]"
	}
	return drawObject(t, depth, rapid.IntRange(0, 3).Draw(t, "members"))
}

func drawObject(t *rapid.T, depth, n int) string {
	var members []string
	seen := map[string]bool{}
	for range n {
		name, key := drawString(t), ""
		if err := json.Unmarshal([]byte(name), &key); err != nil {
			t.Fatal(err)
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		members = append(members, name+drawSpace(t, ":")+drawValue(t, depth-1))
	}
	return "{" + strings.Join(members, drawSpace(t, ",")) + "}"
}

func drawSpace(t *rapid.T, mark string) string {
	return mark + rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space")
}

// drawArgs draws the arguments, now and then as deep as a job may be: 98 levels
// below args.
func drawArgs(t *rapid.T) string {
	if rapid.IntRange(0, 9).Draw(t, "deep") > 0 {
		return "[" + strings.Join([]string{drawValue(t, 3), drawValue(t, 1)}, drawSpace(t, ",")) + "]"
	}
	open, end := "", ""
	for range 98 {
		if rapid.Bool().Draw(t, "list") {
			open, end = open+"[", "]"+end
		} else {
			open, end = open+`{"k":`, "}"+end
		}
	}
	return "[" + open + drawNumber(t) + end + "]"
}

// drawJob draws the text of a job: its known fields, with the values given, and
// others in any order.
func drawJob(t *rapid.T, known map[string]string) string {
	fields := []string{`"args"` + drawSpace(t, ":") + drawArgs(t)}
	for _, key := range slices.Sorted(func(yield func(string) bool) {
		for key := range known {
			if !yield(key) {
				return
			}
		}
	}) {
		fields = append(fields, `"`+key+`":`+known[key])
	}
	for _, key := range []string{"cattr", "bid", "locale", "tags_of_ours", "ключ"} {
		if rapid.Bool().Draw(t, key) {
			fields = append(fields, `"`+key+`"`+drawSpace(t, ":")+drawValue(t, 3))
		}
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "unknown") {
		name := drawString(t)
		fields = append(fields, fmt.Sprintf(`"x%d %s%s`, i, name[1:], drawSpace(t, ":"))+drawValue(t, 2))
	}
	fields = rapid.Permutation(fields).Draw(t, "order")
	return "{" + strings.Join(fields, drawSpace(t, ",")) + "}"
}

// cut takes a job apart into its fields and their texts, without the code that
// is tested here.
func cut(raw string) (keys []string, texts map[string]string, err error) {
	d := json.NewDecoder(bytes.NewReader([]byte(raw)))
	if _, err := d.Token(); err != nil {
		return nil, nil, err
	}
	texts = map[string]string{}
	for d.More() {
		key, err := d.Token()
		var text json.RawMessage
		if err == nil {
			err = d.Decode(&text)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w in %s", err, raw)
		}
		name := fmt.Sprint(key)
		keys = append(keys, name)
		texts[name] = string(text)
	}
	return keys, texts, nil
}

// kept tells how a step changed a job more than it may: in the text or the order
// of a field that it must not edit. Fields in moved may change their place only.
func kept(was, is string, same func(a, b string) bool, moved []string, edited ...string) error {
	before, a, err := cut(was)
	if err != nil {
		return err
	}
	after, b, err := cut(is)
	if err != nil {
		return err
	}
	for _, key := range before {
		text, ok := b[key]
		if !slices.Contains(edited, key) && (!ok || !same(a[key], text)) {
			return fmt.Errorf("field %q: %s became %s", key, a[key], text)
		}
	}
	for _, key := range after {
		if _, ok := a[key]; !ok && !slices.Contains(edited, key) {
			return fmt.Errorf("field %q is new: %s", key, b[key])
		}
	}
	free := func(key string) bool { return slices.Contains(edited, key) || slices.Contains(moved, key) }
	if x, y := slices.DeleteFunc(before, free), slices.DeleteFunc(after, free); !slices.Equal(x, y) {
		return fmt.Errorf("fields in another order: %q became %q", x, y)
	}
	return nil
}
