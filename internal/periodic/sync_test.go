package periodic_test

import (
	"fmt"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/test/harness"
)

// An entry that names no namespace is where Ruby has its own, and only there, however often it is written, and whether
// Ruby or troupe came first: else each tick would have two jobs.
func TestEntriesAreWhereRubyHasItsOwn(t *testing.T) {
	list := []troupe.Periodic{{Name: "n", Cron: "* * * * *", Class: "C"}, {Name: "m", Cron: "* * * * *", Class: "C"}}
	const old, usual = "cron_job:n", "cron_job:default:n"
	for name, test := range map[string]struct {
		before, after func(t *testing.T, r *rig) // the first time that the entries are written
		want          []string
	}{
		"no Ruby": {want: []string{"default m false", "default n false"}},
		"sidekiq-cron 1 came first": {
			before: func(t *testing.T, r *rig) { r.ruby(t, "cron_jobs", old) },
			want:   []string{" m false", " n false"},
		},
		"sidekiq-cron 1 came later": {
			after: func(t *testing.T, r *rig) { r.ruby(t, "cron_jobs", old) },
			want:  []string{" m false", " n false"},
		},
		"sidekiq-cron 1 came later, and people have disabled an entry that it lacks": {
			after: func(t *testing.T, r *rig) {
				harness.OK(t, r.Store.Enable(t.Context(), harness.Must(r.Store.Find(t.Context(), "m", ""))(t), false))
				r.ruby(t, "cron_jobs", old)
			},
			want: []string{" m true", " n false"},
		},
		"sidekiq-cron 2, and what its version 1 has left": {
			before: func(t *testing.T, r *rig) {
				r.ruby(t, "cron_jobs", old)
				r.ruby(t, "cron_jobs:default", usual, "retry", "")
			},
			want: []string{" n false", "default m false", "default n false"}, // what it has left is Ruby's
		},
		"sidekiq-cron 1 became 2": {
			before: func(t *testing.T, r *rig) { r.ruby(t, "cron_jobs", old) },
			after:  func(t *testing.T, r *rig) { r.ruby(t, "cron_jobs:default", usual, "retry", "") },
			want:   []string{"default m false", "default n false"},
		},
	} {
		for _, tag := range []string{"app", ""} {
			t.Run(name+", tag "+tag, func(t *testing.T) {
				inBubble(t, func(t *testing.T, r *rig) {
					if test.before != nil {
						test.before(t, r)
					}
					for range 2 {
						harness.Must(r.Store.Sync(t.Context(), tag, list))(t)
					}
					if test.after != nil {
						test.after(t, r)
						known, same, err := r.Store.Written(t.Context(), tag, list)
						harness.Equal(t, "it is where it belongs", fmt.Sprint(known, same, err), "false true <nil>")
					}
					for range 2 {
						harness.EqualList(t, "taken away", harness.Must(r.Store.Sync(t.Context(), tag, list))(t), nil)
						known, same, err := r.Store.Written(t.Context(), tag, list)
						harness.Equal(t, "written", fmt.Sprint(known, same, err), "true true <nil>")
					}
					var got []string
					for _, space := range []string{"-", "default"} {
						for _, name := range []string{"m", "n"} {
							if e, err := r.Store.Find(t.Context(), name, space); err == nil {
								got = append(got, fmt.Sprint(e.Namespace, " ", e.Name, " ", e.Disabled))
							}
						}
					}
					harness.EqualList(t, "entries", got, test.want)
				})
			})
		}
	}
}

// ruby has Ruby write the hash of an entry as sidekiq-cron does.
func (r *rig) ruby(t *testing.T, set, key string, more ...any) {
	t.Helper()
	harness.OK(t, r.rdb.SAdd(t.Context(), set, key).Err())
	harness.OK(t, r.rdb.HSet(t.Context(), key, append([]any{
		"name", "n", "klass", "C", "cron", "* * * * *", "args", "[]", "status", "enabled", "message", `{"class":"C","args":[],"queue":"default","retry":true}`,
	}, more...)...).Err())
}
