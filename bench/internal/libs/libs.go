// Package libs measures libraries that the hot path could use, beside what it
// uses: go test -bench . ./internal/libs, with GOEXPERIMENT=jsonv2
// for one candidate more. The figures and the choice are in docs/performance.md.
package libs
