package testdata

import "github.com/troupehq/troupe"

var (
	s     *Shop
	job   *troupe.Job[Thumbnail]
	thumb string
)
