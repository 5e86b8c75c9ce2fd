package handler

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/troupehq/troupe"
)

// inherited are the names of the variables of its own that the daemon passes to
// every program; those that begin with LC_ are passed as well.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
	// of Windows
	"SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA",
}

// maxVariable is the size of one variable in bytes, with its name, the equals
// sign and the NUL at its end. It is Linux's limit.
const maxVariable = 128 << 10

// usualVariables bounds the bytes of the variables of an ordinary job. If a job has more, and the
// system finds the environment too large, the job is at fault and
// not the arguments of the program.
const usualVariables = 4 << 10

// environment returns the variables of this process that a program gets, those
// of names among them.
func environment(names []string) (env []string) {
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if runtime.GOOS == "windows" {
			name = strings.ToUpper(name)
		}
		if slices.Contains(inherited, name) || strings.HasPrefix(name, "LC_") || slices.ContainsFunc(names, func(s string) bool {
			return s == name || runtime.GOOS == "windows" && strings.EqualFold(s, name)
		}) {
			env = append(env, kv)
		}
	}
	return env
}

// jobEnvironment returns the variables that describe the job. It returns an error if
// no environment can hold them.
func jobEnvironment(p *troupe.Payload, queue string) (env []string, err error) {
	for _, v := range []struct{ field, name, value string }{
		{"jid", "TROUPE_JID", p.JID()},
		{"class", "TROUPE_CLASS", p.HandlerClass()},
		{"queue", "TROUPE_QUEUE", queue},
		{"retry_count", "TROUPE_ATTEMPT", strconv.Itoa(p.Failures() + 1)},
	} {
		kv := v.name + "=" + variableText(v.value)
		why := ""
		if strings.ContainsRune(v.value, 0) {
			why = "text without NUL"
		} else if limit := maxVariable - len(v.name) - len("=\x00"); len(kv) >= maxVariable {
			why = fmt.Sprintf("at most %d bytes, but it has %d", limit, len(kv)-len(v.name)-len("="))
		}
		if why != "" {
			return nil, fmt.Errorf("%s is %s, expected %s, since the program gets it as %s",
				v.field, strconv.Quote(clipText([]byte(v.value), 40)), why, v.name)
		}
		env = append(env, kv)
	}
	return env, nil
}

// variableText returns s with its control characters, and "%", percent-encoded.
func variableText(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if unicode.IsControl(r) || r == '%' {
			for _, c := range []byte(s[:n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}
