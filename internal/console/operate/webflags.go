package operate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/web"
)

// WebFlags adds the flags of who may use the dashboard, and what is masked: "troupe web" and, with
// a prefix, "troupe run" have them.
func WebFlags(f *pflag.FlagSet, prefix string, o *web.Options) {
	f.StringVar(&o.BasePath, prefix+"base-path", "", "path that the pages are under, for a proxy before it (/)")
	f.StringVar(&o.Users, prefix+"users", "", "file of those who may sign in, with lines of: troupe web user, troupe web token")
	f.StringSliceVar(&o.TrustProxies, prefix+"trust-proxy", nil, "address or network of a proxy that may set X-Forwarded-*, repeatable")
	f.StringVar(&o.UserHeader, prefix+"user-header", "", "header by which such a proxy says who has signed in there")
	f.StringVar(&o.RoleHeader, prefix+"role-header", "", "header by which it says the role: viewer, operator or admin")
	f.StringVar(&o.Origin, prefix+"origin", "", "address that browsers see, such as https://jobs.example, if a proxy rewrites Host")
	f.StringSliceVar(&o.MaskKeys, prefix+"mask", nil, "part of the names of keys whose values are masked, too, repeatable")
	f.Var(positions{&o.MaskArgs}, prefix+"mask-args", "arguments of a class that are masked, such as Billing::Charge:1,3, repeatable")
}

// positions is CLASS:N,N…: classes of Ruby have colons themselves.
type positions struct{ of *map[string][]int }

func (p positions) Set(s string) error {
	wrong := fmt.Errorf("%q, expected CLASS:N,N with positions from 1 on", s)
	i := strings.LastIndexByte(s, ':')
	if i < 1 {
		return wrong
	}
	if *p.of == nil {
		*p.of = map[string][]int{}
	}
	for text := range strings.SplitSeq(s[i+1:], ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return wrong
		}
		(*p.of)[s[:i]] = append((*p.of)[s[:i]], n)
	}
	return nil
}

func (p positions) String() string {
	if p.of == nil {
		return "" // pflag asks the zero value
	}
	var all []string
	for _, class := range slices.Sorted(maps.Keys(*p.of)) {
		at := make([]string, len((*p.of)[class]))
		for i, n := range (*p.of)[class] {
			at[i] = strconv.Itoa(n)
		}
		all = append(all, class+":"+strings.Join(at, ","))
	}
	return strings.Join(all, " ")
}

func (positions) Type() string { return "CLASS:N,N" }
