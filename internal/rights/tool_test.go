package rights

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

var tools = []Tool{{Name: "looking"}, {Name: "pausing", Changes: true}, Dashboard(false, false), Dashboard(false, true), Dashboard(true, false), Dashboard(true, true)}

// Who has the rule of a tool lacks nothing, and who lacks a right of it reads which. Nothing is
// changed by the question.
func TestTools(t *testing.T) {
	server := redistest.Start(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer admin.Close()
	user := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "u", Password: "pw", DisableIdentity: true})
	defer user.Close()
	grant := func(rule ...string) {
		t.Helper()
		args := []any{"ACL", "SETUSER", "u", "reset", "on", ">pw"}
		for _, r := range rule {
			args = append(args, r)
		}
		harness.OK(t, admin.Do(t.Context(), args...).Err())
	}
	for _, tool := range tools {
		all := tool.Rule()
		grant(all...)
		if warnings, err := CheckTool(t.Context(), user, tool); err != nil || len(warnings) > 0 {
			t.Errorf("%+v: %v, %q", tool, err, warnings)
		}
		for i, lacks := range all {
			if lacks == "+lpush" && !tool.Changes { // it cannot be asked for where nothing is to be done
				continue
			}
			grant(slices.Delete(slices.Clone(all), i, i+1)...)
			warnings, err := CheckTool(t.Context(), user, tool)
			said := strings.Join(warnings, "\n")
			if err != nil {
				said = err.Error()
			}
			if lacks[0] == '+' && !strings.Contains(said, strings.ToUpper(lacks[1:])) || lacks[0] != '+' && said == "" && !overlaps(lacks) {
				t.Errorf("%+v without %s: %v, %q", tool, lacks, err, warnings)
			}
		}
	}
	grant("+@read", "~*")
	if _, err := CheckTool(t.Context(), user, Tool{Name: "looking"}); err != nil {
		t.Errorf("with +@read: %v", err)
	}
	if _, err := CheckTool(t.Context(), user, Tool{Name: "pausing", Changes: true}); err == nil || !strings.Contains(err.Error(), `user "u" the rights that pausing needs, missing are commands`) {
		t.Errorf("with +@read: %v", err)
	}
	harness.Equal(t, "it has left keys", admin.DBSize(t.Context()).Val(), 0)
}

// overlaps reports whether other patterns cover the key by which a rule is asked for.
func overlaps(rule string) bool {
	return slices.Contains([]string{"~j|*", "~h|*", "~*-[0-9][0-9]-[0-9][0-9]:*", "~troupe:*"}, rule)
}

// The documentation has these rules.
func TestTheRulesAreDocumented(t *testing.T) {
	text := harness.Must(os.ReadFile("../../docs/scaling.md"))(t)
	blocks := strings.Split(string(text), "```")
	for _, tool := range tools {
		want := slices.Sorted(slices.Values(tool.Rule()))
		if tool.signIn && !tool.Changes { // told by what it has more
			var more []string
			for _, r := range want {
				if !slices.Contains(tools[0].Rule(), r) {
					more = append(more, r)
				}
			}
			if !strings.Contains(string(text), "`"+strings.Join(more, " ")+"`") {
				t.Errorf("docs/scaling.md has not %s", more)
			}
			continue
		}
		if !slices.ContainsFunc(blocks, func(b string) bool {
			words := strings.Fields(b)
			if len(words) < 6 || words[1] != "ACL" {
				return false
			}
			return slices.Equal(slices.Sorted(slices.Values(words[6:])), want)
		}) {
			t.Errorf("docs/scaling.md has not the rule of %+v: %s", tool, strings.Join(want, " "))
		}
	}
}
