package testdata

// What the page about encryption has at hand.

var (
	key []byte
	p   *troupe.Payload
)
