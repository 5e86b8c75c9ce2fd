package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// banned are the words that are no names of ours, and what is said instead. The plural and the
// other forms of a word are banned with it.
var banned = strings.Fields(`parcel mate lap baton bell ears seat ride board alight chime patrol truce aftermath
	entrust errand linger ripe pace abreast hush oversight overseen successor ladder rung asker disinherit acquit judge
	fate twin roomy amnesia mend furnish farewell nudge bury deaf abroad disown demand torn sick owed aside calm`)

// finding is a banned word as a part of an identifier, or of a string without spaces: a key,
// the name of a metric, a field of the log.
type finding struct{ word, where, text string }

// wordsOf finds the banned words in the identifiers, struct tags and strings of a file.
func wordsOf(set *token.FileSet, tree *ast.File, path string) (all []finding) {
	look := func(text string, at token.Pos) {
		for _, word := range bannedIn(text) {
			all = append(all, finding{word, fmt.Sprintf("%s:%d", path, set.Position(at).Line), text})
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			look(n.Name, n.Pos())
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			if n.Tag != nil {
				tag, _ := strconv.Unquote(n.Tag.Value)
				for _, key := range []string{"json", "yaml", "arg"} {
					look(reflect.StructTag(tag).Get(key), n.Tag.Pos())
				}
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && !strings.ContainsAny(text, " \n") {
				look(text, n.Pos())
			}
		}
		return true
	})
	return all
}

// bannedIn finds banned words in a name.
func bannedIn(name string) (found []string) {
	for _, part := range parts(name) {
		if word, ok := bannedForms()[part]; ok {
			found = append(found, word)
		}
	}
	return found
}

// bannedForms leads from each form of a banned word to the word.
var bannedForms = sync.OnceValue(func() map[string]string {
	all := make(map[string]string)
	for _, word := range banned {
		for _, form := range forms(word) {
			all[form] = word
		}
	}
	return all
})

// forms are a word, its plural, and what a verb would have.
func forms(word string) []string {
	stem := strings.TrimSuffix(word, "e")
	all := []string{word, word + "s", stem + "ed", stem + "ing", word + "ful", word + "ment"}
	if stem, ok := strings.CutSuffix(word, "y"); ok {
		all = append(all, stem+"ies", stem+"ied")
	}
	return all
}

// parts are the words of a name, in lower case. A word ends at a change of case, at a digit
// and at punctuation; an abbreviation in capitals is one word.
func parts(name string) (out []string) {
	runes := []rune(name)
	word := ""
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			out, word = append(out, word), ""
			continue
		case unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			out, word = append(out, word), ""
		}
		word += string(unicode.ToLower(r))
	}
	return slices.DeleteFunc(append(out, word), func(word string) bool { return word == "" })
}
