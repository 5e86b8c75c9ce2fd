package web

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/words"
)

//go:embed templates
var templateFiles embed.FS

// parseTemplates makes a template of each page, with the layout and the partials in it.
func parseTemplates() (map[string]*template.Template, error) {
	shared, err := template.New("").Funcs(functions).ParseFS(templateFiles, "templates/layout.html", "templates/partials/*.html")
	if err != nil {
		return nil, err
	}
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	all := map[string]*template.Template{}
	for _, f := range files {
		t, err := shared.Clone()
		if err == nil {
			t, err = t.ParseFS(templateFiles, f)
		}
		if err != nil {
			return nil, err
		}
		all[strings.TrimSuffix(path.Base(f), ".html")] = t
	}
	return all, nil
}

// functions are those that all templates have.
var functions = template.FuncMap{
	"count":     words.Count,    // 1234567 → 1,234,567
	"rate":      words.Rate,     // *float64 a second → 12.5, – for nil
	"span":      words.Span,     // seconds or time.Duration → 3m 20s
	"ago":       ago,            // time → <time>3m ago</time>, or in 3m
	"zoned":     zoned,          // text "at 12:05:00 UTC <b>" → at <time>12:05:00 UTC</time> &lt;b&gt;
	"clock":     clock,          // time "15:04" → <time>12:05</time>, in UTC
	"bytes":     words.Size,     // 1536 → 1.5 KB
	"state":     badge,          // "paused" → sign and word; "danger" "nobody listens" → other words
	"plural":    words.Plural,   // 2 "job" → 2 jobs
	"text":      text,           // json.RawMessage → string
	"short":     words.Short,    // text, most bytes
	"sentence":  words.Sentence, // "it is late" → It is late.
	"dict":      dict,           // "A" 1 "B" 2 → map, for partials
	"identity":  identity,       // with places where it may be broken
	"kilobytes": func(n int64) string { return words.Size(n << 10) },
	"quantile":  func(s *float64) string { return "≤ " + words.Exact(*s) }, // of a bucket
	"list":      func(v ...any) []any { return v },
	"join":      strings.Join,
	"query":     url.QueryEscape,
	"has":       has, // "a b" "a" → true
}

// has reports whether a list of words has one. There may be no list.
func has(words any, word string) bool {
	list, _ := words.(string)
	return slices.Contains(strings.Fields(list), word)
}

func dict(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return m
}

// integer reads a number; 0 for anything else.
func integer(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// ago is how long ago a time is, or in how long; the exact one is its title. "–" for none.
func ago(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	d := time.Since(t)
	var text string
	switch {
	case d.Abs() < time.Second:
		text = "now"
	case d > 0:
		text = words.Brief(d) + " ago"
	default:
		text = "in " + words.Brief(-d+time.Second/2) // what has just been given counts as whole
	}
	if d.Abs() >= time.Hour {
		text += t.UTC().Format(" <small>Jan 2, 15:04 UTC</small>")
	}
	return timed(t, text)
}

// clock is a time in UTC; the exact one is its title.
func clock(t time.Time, layout string) template.HTML { return timed(t, t.UTC().Format(layout)) }

// timed says a time in words of ours, with the exact one as its title.
func timed(t time.Time, words string) template.HTML {
	exact := t.UTC().Format("2006-01-02 15:04:05.000 UTC")
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`, t.UTC().Format(time.RFC3339Nano), exact, words)) //nolint:gosec // digits and words of ours
}

// written are the times that sentences of ours have, as problems and explanations say them.
var written = regexp.MustCompile(`\b(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d UTC\b|\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// zoned is a sentence whose times are elements: the page gives each its time in the viewer's zone. A
// time without a date is the last one that was.
func zoned(text string) template.HTML {
	var b strings.Builder
	end := 0
	for _, at := range written.FindAllStringIndex(text, -1) {
		word := text[at[0]:at[1]]
		t, err := time.Parse("2006-01-02 15:04:05 MST", word)
		if err != nil {
			t, err = time.Parse(time.RFC3339, word)
		}
		if now := time.Now().UTC(); err != nil {
			if t, err = time.Parse("2006-01-02 15:04:05 MST", now.Format("2006-01-02 ")+word); t.After(now) {
				t = t.AddDate(0, 0, -1)
			}
		}
		if err != nil { // 25:61:00
			continue
		}
		b.WriteString(template.HTMLEscapeString(text[end:at[0]]))
		b.WriteString(string(timed(t, word)))
		end = at[1]
	}
	b.WriteString(template.HTMLEscapeString(text[end:]))
	return template.HTML(b.String()) //nolint:gosec // what is not ours is escaped
}

// signs are those of the states, with the class of their color. The word is always beside.
var signs = map[string][2]string{
	"running": {"●", "good"}, "ok": {"●", "good"}, "done": {"●", "good"}, "idle": {"○", "neutral"}, "busy": {"■", "work"}, "starting": {"◔", "work"},
	"crashed": {"✖", "bad"}, "gone": {"✖", "bad"}, "danger": {"✖", "bad"}, "restarting": {"↻", "warn"}, "silent": {"◌", "warn"}, "warning": {"▲", "warn"},
	"quiet": {"▽", "neutral"}, "stopping": {"▽", "neutral"}, "stopped": {"□", "neutral"}, "paused": {"‖", "off"}, "held": {"‖", "off"}, "suspended": {"◇", "off"},
	"unresponsive": {"▨", "off"}, "note": {"◆", "work"}, "down": {"↻", "warn"},
}

// badge is a state as sign and word, or other words.
func badge(state any, words ...string) template.HTML {
	word := fmt.Sprint(state)
	sign, ok := signs[word]
	if !ok {
		sign = [2]string{"·", "neutral"}
	}
	if len(words) > 0 {
		word = strings.Join(words, " ")
	}
	return template.HTML(fmt.Sprintf(`<span class="state %s"><span class="sign" aria-hidden="true">%s</span>%s</span>`, sign[1], sign[0], template.HTMLEscapeString(word))) //nolint:gosec // escaped
}

// identity is one of a process, which may be broken after its parts.
func identity(id string) template.HTML {
	return template.HTML(strings.NewReplacer(":", ":<wbr>", ".", ".<wbr>").Replace(template.HTMLEscapeString(words.Short(id, 100)))) //nolint:gosec // escaped
}

// text is JSON as it is.
func text(v any) string {
	if raw := reflect.ValueOf(v); raw.IsValid() && raw.Kind() == reflect.Slice {
		return string(raw.Bytes())
	}
	return ""
}
