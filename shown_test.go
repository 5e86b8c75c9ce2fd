package troupe_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

// notShown are the calls without an example, and why.
var notShown = map[string]map[string]string{
	".": {"PanicError.Backtrace": ofPackages}, "outbox": nil, "sched": nil, "event": nil, "handler": nil, "testkit": nil, "supervisor": nil, "retry": nil,
	"client": {"Client.Prepare": ofPackages, "Client.PushOnce": ofPackages, "Client.Taking": ofPackages, "WithSpans": ofPackages},
	"actors": {"Daemon.Faults": ofPackages, "Daemon.DumpStacks": "it writes into the log, and has nothing to show"},
	"fetch": {
		"Effects.Size": ofAuthors, "Env.Check": ofAuthors, "Strict.Wants": ofAuthors, "Weighted.Wants": ofAuthors, "WeightedList.Wants": ofAuthors,
	},
	"inspect": {
		"Inspector.CancelRunning": asOther, "PeriodicJob.Enable": asOther, "Process.Stop": asOther, "Process.DumpThreads": asOther, "JobSet.KillAll": asOther,
		"QueuedJob.Kill": asOther, "SortedEntry.Kill": asOther, "SortedEntry.Retry": asOther, "Inspector.Process": asOther,
		"JobSet.Fetch": ofPages, "JobSet.From": ofPages, "JobSet.Lookup": ofPages, "JobSet.Scan": ofPages, "JobSet.Due": ofPages, "Queue.Job": ofPages, "Queue.OldestAfter": ofPages,
		"Queue.Takes": ofPages, "QueuedJob.Whole": ofPages, "SortedEntry.Whole": ofPages, "SortedEntry.Key": ofPages, "SortedEntry.Overdue": ofPages, "JobRecord.Cut": ofPages,
		"Inspector.Marks": ofPages, "IsFault": ofPages,
		"Inspector.Claims": ofDaemons, "Inspector.Fetchers": ofDaemons, "Inspector.Tree": ofDaemons, "Inspector.Runs": ofDaemons, "Runs.Quantile": ofDaemons,
		"Inspector.Iterations": ofDaemons, "PeriodicJob.Pushes": ofDaemons, "Inspector.History": ofDaemons, "Inspector.ResetStats": ofDaemons, "Inspector.PeriodicJobs": asOther,
	},
}

const (
	asOther    = "it is called as one that has an example"
	ofPages    = "it is for pages and commands that show sets and queues"
	ofPackages = "it is for other packages of this module"
	ofAuthors  = "it is for authors of fetchers and of orders of queues"
	ofDaemons  = "it reads what daemons have written in the course of time"
)

// byOthers are the methods that the standard library and loggers call.
var byOthers = []string{"Error", "Unwrap", "Is", "String", "MarshalText", "MarshalJSON", "UnmarshalJSON", "MarshalZerologObject", "ErrorClass"}

// Each function and method of these packages that a program calls is in an example, which go doc shows and
// the tests run.
func TestEveryCallIsInAnExample(t *testing.T) {
	for dir := range notShown {
		calls, shown := map[string]bool{}, map[string]bool{}
		for _, path := range harness.Must(filepath.Glob(filepath.Join(dir, "*.go")))(t) {
			file := harness.Must(parser.ParseFile(token.NewFileSet(), path, nil, 0))(t)
			test := strings.HasSuffix(path, "_test.go")
			for _, d := range file.Decls {
				switch f, ok := d.(*ast.FuncDecl); {
				case !ok:
				case test && strings.HasPrefix(f.Name.Name, "Example"):
					ast.Inspect(f, func(n ast.Node) bool {
						if id, ok := n.(*ast.Ident); ok {
							shown[id.Name] = true
						}
						return true
					})
				case !test && f.Name.IsExported() && (f.Recv == nil || ast.IsExported(receiver(f))):
					calls[strings.TrimPrefix(receiver(f)+"."+f.Name.Name, ".")] = true
				}
			}
		}
		for _, call := range slices.Sorted(maps.Keys(calls)) {
			_, name, method := strings.Cut(call, ".")
			if !method {
				name = call
			}
			why, apart := notShown[dir][call]
			switch {
			case !apart && !shown[name] && !slices.Contains(byOthers, name):
				t.Errorf("%s: no example calls %s", dir, call)
			case apart && (shown[name] || why == ""):
				t.Errorf("%s: %s is in an example: it is no exception", dir, call)
			}
		}
		for call := range notShown[dir] {
			if !calls[call] {
				t.Errorf("%s: there is no %s", dir, call)
			}
		}
	}
}

// receiver is the type that a method is of, "" of a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	id, _ := typ.(*ast.Ident)
	return id.Name
}
