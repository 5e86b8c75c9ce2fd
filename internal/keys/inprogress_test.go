package keys

import (
	"fmt"
	"testing"
)

func TestOwnersOf(t *testing.T) {
	for _, c := range []struct {
		key     string
		cluster bool
		want    string
	}{
		{"troupe:claim:h:1:aa#default.1:7.1", false, "h:1:aa#default.1 7.1 "},
		{"troupe:claim:h:1:aa#a:b#c.12:7.1", false, "h:1:aa#a:b#c.12 7.1 "},
		{"troupe:claim:h:1:aa#default.1:w:low", false, "h:1:aa#default.1 w:low low"},
		{"troupe:claim:h:1:aa#default.1:w2:a:b", false, "h:1:aa#default.1 w2:a:b a:b"},
		{"troupe:claim:h:1:aa#default.1:w:x:7.1", false, "h:1:aa#default.1 w:x:7.1 x:7.1"},
		{"troupe:claim:h:1:aa#default.1:w:a.1:7.1", false, "h:1:aa#default.1 w:a.1:7.1 a.1:7.1, h:1:aa#default.1:w:a.1 7.1 "},
		{"troupe:claim:h:1:aa#default.1", false, ""},
		{"troupe:claim:h:1:aa#default:7.1", false, ""},
		{"troupe:claim:h:1:aa#default.1:7", false, ""},
		{"troupe:claim:what", false, ""},
		{"troupe:claim:{queue:low}:h:1:aa#default.1:7.1", true, "h:1:aa#default.1 7.1 low"},
		{"troupe:claim:{queue:low}:h:1:aa#default.1:w:low", true, "h:1:aa#default.1 w:low low"},
		{"troupe:claim:h:1:aa#default.1:7.1", true, ""},
	} {
		got := ""
		for i, o := range OwnersOf(c.key, c.cluster) {
			if i > 0 {
				got += ", "
			}
			got += fmt.Sprint(o.ID, " ", o.Field, " ", o.Queue)
			if list := o.Slot.List(o.ID, o.Field); list != c.key {
				t.Errorf("%s comes back as %s", c.key, list)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.key, got, c.want)
		}
	}
}
