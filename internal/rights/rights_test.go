package rights

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What the daemon's scripts call stands in the table.
func TestTableHasTheCommandsOfTheScripts(t *testing.T) {
	var known []string
	for _, c := range commands {
		name, _, _ := strings.Cut(c.name, "|")
		known = append(known, name)
	}
	call := regexp.MustCompile(`call\('([A-Z]+)'`)
	found := 0
	for _, dir := range []string{"fetch", "actors/internal", "internal"} {
		err := filepath.WalkDir("../../"+dir, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".lua" {
				return err
			}
			src, err := os.ReadFile(name)
			for _, m := range call.FindAllStringSubmatch(string(src), -1) {
				found++
				if !slices.Contains(known, m[1]) {
					t.Errorf("%s calls %s, which is not in the table", name, m[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 100 {
		t.Errorf("found %d calls", found)
	}
}

// replyError is an error reply.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

func TestDenied(t *testing.T) {
	for text, want := range map[string]string{
		"NOPERM this user has no permissions to run the 'lpush' command or its subcommand":                          "command", // 6.2
		"NOPERM this user has no permissions to run the 'lpush' command":                                            "command", // 7.0
		"NOPERM User keyman has no permissions to run the 'client|tracking' command":                                "command", // 7.2, Valkey
		"NOPERM this user has no permissions to access one of the keys used as arguments":                           "key",
		"NOPERM No permissions to access a key":                                                                     "key",
		"NOPERM this user has no permissions to access one of the channels used as arguments":                       "channel",
		"NOPERM No permissions to access a channel":                                                                 "channel",
		"EXECABORT Transaction discarded because of: NOPERM this user has no permissions to run the 'exec' command": "command",
		"NOPERM":                                "command",
		"LOADING Redis is loading":              "",
		"READONLY You can't write":              "",
		"OOM command not allowed":               "",
		"ERR unknown command":                   "",
		"MOVED 1 127.0.0.1:7000":                "",
		"EXECABORT Transaction discarded":       "",
		"NOSCRIPT No matching script":           "",
		"NOAUTH Authentication required":        "",
		"ERR value is not an integer":           "",
		"CLUSTERDOWN The cluster is down":       "",
		"MISCONF Redis is configured to save":   "",
		"BUSY Redis is busy running a script":   "",
		"MASTERDOWN Link with MASTER is down":   "",
		"UNKILLABLE Sorry":                      "",
		"WRONGTYPE Operation against a key ...": "",
	} {
		if got := denied(replyError(text)); got != want {
			t.Errorf("%s: %q, expected %q", text, got, want)
		}
	}
	if got := denied(errors.New("EOF")); got != "" || denied(nil) != "" {
		t.Errorf("a broken connection denies %q", got)
	}
}
