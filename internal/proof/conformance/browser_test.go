package conformance

import (
	"html"
	"regexp"
	"strings"
)

// browser looks at Sidekiq's Web UI of a site and presses its buttons, through
// Rack, in the Ruby console. It keeps the session's cookie and sends back the
// token of the form, as a page of a browser does.
type browser struct {
	s      *site
	cookie string
}

// page is an answer of the Web UI.
type page struct {
	Status   int
	Body     string
	Location string
	Cookie   string
}

func (s *site) browser() *browser { return &browser{s: s} }

func (b *browser) request(method, path string, form [][2]string) page {
	b.s.t.Helper()
	var p page
	b.s.ruby(`visit(*args)`, &p, method, path, form, b.cookie)
	if cookie, _, _ := strings.Cut(p.Cookie, ";"); cookie != "" {
		b.cookie = cookie
	}
	return p
}

// get wants the page at path.
func (b *browser) get(path string) string {
	b.s.t.Helper()
	p := b.request("GET", path, nil)
	if p.Status != 200 {
		b.s.t.Errorf("GET %s: %d %s%s", path, p.Status, p.Location, tail(p.Body, 600))
	}
	return p.Body
}

var (
	formTag  = regexp.MustCompile(`(?s)<form[^>]*>.*?</form>`)
	inputTag = regexp.MustCompile(`<(?:input|button)\b[^>]*>`)
	attr     = regexp.MustCompile(`([a-z]+)=(?:"([^"]*)"|'([^']*)')`)
)

func attrs(tag string) map[string]string {
	m := map[string]string{}
	for _, a := range attr.FindAllStringSubmatch(tag, -1) {
		m[a[1]] = html.UnescapeString(a[2] + a[3])
	}
	return m
}

// press presses the button of this name in the form at path that has what in
// it, with the boxes ticked whose value has it.
func (b *browser) press(path, button, what string) {
	b.s.t.Helper()
	for _, form := range formTag.FindAllString(b.get(path), -1) {
		action := attrs(form[:strings.IndexByte(form, '>')+1])["action"]
		if action == "" {
			action = path
		}
		fields, found, pressed := [][2]string{}, strings.Contains(action, what), false
		for _, tag := range inputTag.FindAllString(form, -1) {
			in := attrs(tag)
			switch {
			case in["type"] == "submit" && in["name"] == button:
				pressed = true
			case in["type"] == "submit" || in["name"] == "":
				continue
			case in["type"] == "checkbox" && !strings.Contains(in["value"], what):
				continue
			}
			found = found || strings.Contains(in["value"], what)
			fields = append(fields, [2]string{in["name"], in["value"]})
		}
		if !found || !pressed {
			continue
		}
		if p := b.request("POST", action, fields); p.Status != 302 {
			b.s.t.Errorf("POST %s %s: %d %s", action, button, p.Status, tail(p.Body, 600))
		}
		return
	}
	b.s.t.Fatalf("no button %q for %q on %s", button, what, path)
}

// links are the addresses on a page below path.
func links(body, path string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`href="(`+regexp.QuoteMeta(path)+`[^"?]+)"`).FindAllStringSubmatch(body, -1) {
		out = append(out, html.UnescapeString(m[1]))
	}
	return out
}
