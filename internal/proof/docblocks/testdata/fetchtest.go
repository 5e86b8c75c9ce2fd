package testdata

import "github.com/troupehq/troupe/fetch"

var mypkg struct {
	NewFetcher func(fetch.Env) (fetch.Fetcher, error)
}
