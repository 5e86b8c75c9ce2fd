package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// A function whose name ends in Locked is called with a lock held. So it is called from another
// one, or after a call of Lock in the same function; and it does not call Lock itself, unless it
// has released the lock before. A literal that is passed to such a function, or converted to a
// type of the name locked, is called with the lock held, too. Which lock is not looked at.

// misuse is a place that breaks this.
type misuse struct {
	at   token.Pos
	text string
}

// locking finds the misuses in a file.
func locking(f *ast.File) (found []misuse) {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			l := locker{held: strings.HasSuffix(fn.Name.Name, "Locked")}
			l.walk(fn.Body)
			found = append(found, l.found...)
		}
	}
	return found
}

// locker walks through one function in the order of its text.
type locker struct {
	held   bool // as it is called
	blocks []ast.Node
	events []lockEvent
	found  []misuse
}

// lockEvent is a call of Lock or Unlock that is no deferred one.
type lockEvent struct {
	block ast.Node
	locks bool
}

func (l *locker) walk(n ast.Node) {
	switch n := n.(type) {
	case *ast.DeferStmt:
		if name := called(n.Call); name == "Lock" || name == "Unlock" || name == "RUnlock" {
			return
		}
	case *ast.GoStmt: // another goroutine holds nothing
		l.walk(n.Call.Fun)
		for _, arg := range n.Call.Args {
			l.walk(arg)
		}
		return
	case *ast.FuncLit:
		inner := locker{}
		inner.walk(n.Body)
		l.found = append(l.found, inner.found...)
		return
	case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
		l.blocks = append(l.blocks, n)
		l.children(n)
		l.blocks = l.blocks[:len(l.blocks)-1]
		return
	case *ast.CallExpr:
		l.call(n)
		return
	}
	l.children(n)
}

func (l *locker) children(n ast.Node) {
	ast.Inspect(n, func(c ast.Node) bool {
		if c == n {
			return true
		}
		if c != nil {
			l.walk(c)
		}
		return false
	})
}

func (l *locker) call(n *ast.CallExpr) {
	name := called(n)
	atOnce := name == "" // a literal that is called where it stands
	held := l.locked() || name == "locked"
	if s, ok := n.Fun.(*ast.SelectorExpr); ok {
		of, ok := s.X.(*ast.Ident)
		atOnce = ok && (of.Name == "slices" || of.Name == "maps" || of.Name == "sort")
	}
	for _, part := range append([]ast.Expr{n.Fun}, n.Args...) {
		if lit, ok := part.(*ast.FuncLit); ok && (atOnce || name == "locked" || strings.HasSuffix(name, "Locked")) {
			inner := locker{held: held}
			inner.walk(lit.Body)
			l.found = append(l.found, inner.found...)
			continue
		}
		l.walk(part)
	}
	switch {
	case name == "Lock" || name == "RLock":
		if l.held && len(l.events) == 0 {
			l.found = append(l.found, misuse{n.Pos(), name + " in a function that is called with the lock held"})
		}
		l.note(true)
	case name == "Unlock" || name == "RUnlock":
		l.note(false)
	case strings.HasSuffix(name, "Locked") && !l.locked():
		l.found = append(l.found, misuse{n.Pos(), name + " without the lock"})
	}
}

func (l *locker) note(locks bool) {
	l.events = append(l.events, lockEvent{l.blocks[len(l.blocks)-1], locks})
}

// locked tells whether the lock is held here: by the last event in this block, or in one around it.
func (l *locker) locked() bool {
	for _, e := range slices.Backward(l.events) {
		if slices.Contains(l.blocks, e.block) {
			return e.locks
		}
	}
	return l.held
}

// called is the name of what is called; "" if it has none.
func called(n *ast.CallExpr) string {
	switch f := n.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}
