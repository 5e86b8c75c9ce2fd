package words

import "testing"

func TestNearest(t *testing.T) {
	strategies := []string{"one_for_one", "all_for_one", "rest_for_one"}
	for _, c := range []struct {
		word  string
		names []string
		want  string
	}{
		{"one_for_all", strategies, "all_for_one"}, {"One-For-One", strategies, "one_for_one"}, {"one_for_two", strategies, "one_for_one"},
		{"restforone", strategies, "rest_for_one"}, {"supervisor", strategies, ""}, {"", strategies, ""},
		{"quees", []string{"quiet", "queues"}, "queues"}, {"dead_max", []string{"dead_max_jobs", "dead"}, "dead_max_jobs"},
		{"when_sinc", []string{"since", "when-since"}, "when-since"}, {"x", []string{"retry", "dead"}, ""}, {"lsit", []string{"list"}, "list"},
	} {
		if got := Nearest(c.word, c.names); got != c.want {
			t.Errorf("nearest to %q of %q is %q, expected %q", c.word, c.names, got, c.want)
		}
	}
	if got, want := OneOf("one_for_all", strategies...), "one of one_for_one, all_for_one, rest_for_one (did you mean all_for_one?)"; got != want {
		t.Errorf("got %q, expected %q", got, want)
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "ab", 1}, {"abc", "xabc", 1},
		{"abc", "acb", 1}, {"abc", "bac", 1}, {"abcd", "badc", 2}, {"abc", "cab", 2}, {"kitten", "sitting", 3},
	} {
		if d := distance(tt.a, tt.b); d != tt.want || distance(tt.b, tt.a) != tt.want {
			t.Errorf("%s, %s: %d, want %d", tt.a, tt.b, d, tt.want)
		}
	}
}
