// Package libs measures the libraries that the hot path could stand on, beside
// what it stands on: go test -bench . ./internal/libs, with GOEXPERIMENT=jsonv2
// for one candidate more. The figures and the choice are in docs/performance.md.
package libs
