package troupe

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module     = "github.com/troupehq/troupe"
	protoactor = "github.com/asynkron/protoactor-go"
)

type goPackage struct {
	ImportPath string
	Standard   bool
	Imports    []string // direct, without those of tests
	Deps       []string // all
}

func (p goPackage) is(path string) bool { return within(p.ImportPath, module+"/"+path) }

// within reports whether pkg is path or lies below it.
func within(pkg, path string) bool { return pkg == path || strings.HasPrefix(pkg, path+"/") }

// The arrows between packages: who may import whom. Packages that do not exist
// cannot break them.
func TestImportArrows(t *testing.T) {
	packages := listPackages(t)
	for _, p := range packages {
		if !within(p.ImportPath, module) {
			continue
		}
		forbid := func(where []string, why string, bad func(string) bool) {
			for _, path := range where {
				if bad(path) {
					t.Errorf("%s imports %s: %s", p.ImportPath, path, why)
				}
			}
		}
		mine := func(paths ...string) func(string) bool {
			return func(pkg string) bool {
				return slices.ContainsFunc(paths, func(path string) bool { return within(pkg, module+"/"+path) })
			}
		}
		usesProtoactor := func(pkg string) bool { return within(pkg, protoactor) }

		if p.ImportPath == module {
			forbid(p.Deps, "the root uses the standard library only, and packages that do, too", func(pkg string) bool {
				return !packages[pkg].Standard && !mine("internal/args", "internal/errchain", "internal/jobctx", "internal/limits", "internal/words", "internal/scores", "internal/wirejson")(pkg)
			})
		}
		if p.is("internal/wirejson") || p.is("internal/args") {
			forbid(p.Imports, "the bytes of a payload are below its nouns", func(pkg string) bool {
				return !packages[pkg].Standard && (p.is("internal/wirejson") || !mine("internal/wirejson")(pkg))
			})
		}
		if p.ImportPath != module && !p.is("internal/job") {
			forbid(p.Imports, "arguments are read by the root and written by internal/job", mine("internal/args"))
		}
		if p.ImportPath != module && !p.is("internal/args") && !p.is("internal/job") && !p.is("client") && !p.is("inspect") && !p.is("wire/laravel") {
			forbid(p.Imports, "payloads are read and written by the root's Payload", mine("internal/wirejson"))
		}
		if p.ImportPath == module || p.is("client") || p.is("actors") || p.is("inspect") {
			forbid(p.Deps, "databases are for those who have an outbox: actors.Relay is an interface", func(pkg string) bool { return pkg == "database/sql" || mine("outbox")(pkg) })
		}
		if !p.is("cmd") {
			forbid(p.Deps, "the command alone links drivers of databases", func(pkg string) bool {
				return within(pkg, "github.com/jackc") || within(pkg, "github.com/go-sql-driver") || within(pkg, "modernc.org")
			})
		}
		if p.is("client") || p.is("trace") {
			forbid(p.Deps, "a program that only pushes must not link the actor library", usesProtoactor)
		}
		if p.ImportPath == module || p.is("client") || p.is("actors") || p.is("inspect") {
			forbid(p.Deps, "traces are optional", mine("trace"))
		}
		if p.is("client") || p.is("inspect") {
			forbid(p.Deps, "a program that only pushes, or looks, links OpenTelemetry with package trace only", func(pkg string) bool { return within(pkg, "go.opentelemetry.io") })
		}
		if p.is("trace") {
			forbid(p.Deps, "the program brings the SDK", func(pkg string) bool { return within(pkg, "go.opentelemetry.io/otel/sdk") })
		}
		if !p.is("actors") && !p.is("supervisor") && !p.is("testkit") && !p.is("cmd") {
			forbid(p.Imports, "only actors, supervisor, testkit and cmd know the actor library", usesProtoactor)
		}
		if p.is("actors/internal") {
			forbid(p.Deps, "a room of actors is below it", func(pkg string) bool { return pkg == module+"/actors" })
		}
		if p.is("actors/internal/env") || p.is("actors/internal/supervised") || p.is("actors/internal/poison") {
			forbid(p.Deps, "what is fetched and run is above it", mine("actors/internal/work", "actors/internal/run"))
		}
		if p.is("actors/internal/show") {
			forbid(p.Deps, "what a daemon shows is read from values", mine("actors/internal/work", "actors/internal/run", "actors/internal/poison"))
		}
		if p.is("actors/internal/work") {
			forbid(p.Deps, "what is fetched knows nothing of how it is run", mine("actors/internal/run", "retry", "actors/internal/retry"))
		}
		if p.is("fetch") {
			forbid(p.Deps, "fetch sees bytes and queue names, no actor", usesProtoactor)
			forbid(p.Imports, "fetch never decodes a job", mine("client", "retry", "actors/internal/retry", "sched", "actors", "supervisor", "internal/config", "handler"))
			forbid(p.Imports, "fetch never decodes a job", func(pkg string) bool { return pkg == module })
		}
		if p.is("supervisor") {
			forbid(p.Imports, "of this module supervisor knows the root's nouns only, and how texts are cut", func(pkg string) bool {
				return within(pkg, module) && pkg != module && !mine("internal/words", "supervisor/internal/only64")(pkg)
			})
		}
		if p.is("retry") {
			forbid(p.Imports, "retry describes rules; what carries them out is actors/internal/retry", func(pkg string) bool { return within(pkg, module) && pkg != module })
		}
		if p.is("retry") || p.is("sched") || p.is("internal") && !p.is("internal/config") && !p.is("internal/console/demo") && !p.is("internal/proof/chaos") && !p.is("internal/test/procs") || p.is("handler") {
			forbid(p.Deps, "this package stands below the tree", mine("actors", "supervisor", "internal/config", "cmd"))
		}
		if p.is("web") || p.is("inspect") || p.is("internal/console") && !p.is("internal/console/demo") { // which starts daemons
			forbid(p.Deps, "who looks needs no engine", mine("actors", "fetch", "retry", "actors/internal/retry", "supervisor", "internal/config"))
			forbid(p.Deps, "who looks needs no engine", usesProtoactor)
		}
		if slices.ContainsFunc([]string{"actors/internal", "fetch", "sched", "retry", "client", "supervisor", "handler"}, p.is) {
			forbid(p.Deps, "inspect looks at the server side from outside; only the leader looks for the jobs of locks", mine("inspect"))
		}
		if !p.is("cmd") && !p.is("internal/console/operate") && !p.is("internal/console/demo") && !p.is("internal/console/screen") { // demo is one, screen shows what they print
			forbid(p.Imports, "the commands are above all", mine("internal/console/cli", "internal/console/operate"))
		}
		if p.ImportPath == module || slices.ContainsFunc([]string{"actors", "client", "internal/config", "handler", "inspect", "testkit"}, p.is) {
			forbid(p.Deps, "a program links what platforms ask for if it imports that itself", mine("ops"))
		}
		if !p.is("cmd") && !p.is("internal/console/operate") && !p.is("web") {
			forbid(p.Imports, "the dashboard looks at everything, and nothing needs it", mine("web"))
		}
		if !p.is("cmd") && !p.is("internal/console/operate") {
			forbid(p.Imports, "what serves operators is above all that they operate", mine("ops"))
		}
		forbid(p.Imports, "only tests import testkit", func(pkg string) bool {
			return mine("testkit")(pkg) && !p.is("testkit") && !p.is("internal/proof/chaos") && !p.is("internal/test/procs")
		})
	}
}

// lookAtAllFiles makes the test cache forget the result when a file of the module
// changes: it does not see what the go command reads.
func lookAtAllFiles(t *testing.T) {
	t.Helper()
	if err := filepath.WalkDir(".", func(string, fs.DirEntry, error) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// listPackages returns all packages of the module and all they depend on.
func listPackages(t *testing.T) map[string]goPackage {
	t.Helper()
	lookAtAllFiles(t)
	list := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-json=ImportPath,Standard,Imports,Deps", "./...")
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	packages := make(map[string]goPackage)
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("output of go list: %v", err)
		}
		packages[p.ImportPath] = p
	}
	if _, ok := packages[module]; !ok {
		t.Fatal("go list did not find the root package")
	}
	return packages
}
