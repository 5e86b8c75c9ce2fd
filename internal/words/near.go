package words

import (
	"slices"
	"strings"
)

// Nearest returns the name that word may have been meant for: the one that has the same parts in another
// order ("one_for_all"), that differs least, in every third character at most, or that word is the beginning
// of ("dead_max"); "" if there is none.
func Nearest(word string, names []string) string {
	word = strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' {
			return '_'
		}
		return r
	}, strings.ToLower(word))
	best, least := "", max(1, len(word)/3)+1
	for _, name := range names {
		plain := strings.ReplaceAll(name, "-", "_")
		if slices.Equal(parts(word), parts(plain)) {
			return name
		}
		if d := distance(word, plain); d < min(least, len(plain)) {
			best, least = name, d
		}
	}
	if best == "" && strings.Contains(word, "_") {
		for _, name := range names {
			if strings.HasPrefix(strings.ReplaceAll(name, "-", "_"), word+"_") {
				return name
			}
		}
	}
	return best
}

// OneOf says that one of names is expected, and which of them word may have been meant for.
func OneOf(word string, names ...string) string {
	text := "one of " + strings.Join(names, ", ")
	if len(names) == 1 {
		text = names[0]
	}
	if near := Nearest(word, names); near != "" && len(names) > 1 {
		text += " (did you mean " + near + "?)"
	}
	return text
}

// parts are the words of a name, sorted.
func parts(name string) []string {
	all := strings.Split(name, "_")
	slices.Sort(all)
	return all
}

// distance is Levenshtein's, with Damerau's swap: how many bytes to insert,
// delete, replace or swap with their neighbor.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			d := last[j]
			if a[i] != b[j] {
				d++
			}
			d = min(d, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			row[j+1] = d
		}
		before, last = last, row
	}
	return last[len(b)]
}
