package testdata

import "github.com/troupehq/troupe/actors"

var url string

func config(url string) actors.Config { return actors.Config{} }
