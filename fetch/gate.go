package fetch

import "context"

// maxCalls bounds the calls of one fetcher that are on their way at once.
const maxCalls = 8

// gate lets calls in side by side, and a resume alone: it must know that no
// call of the old generation is under way in this process. It is made of
// channels so that waiting ends with the context.
type gate struct {
	places chan struct{} // one place per call
	alone  chan struct{} // held while collecting all places
}

func newGate() gate {
	return gate{places: make(chan struct{}, maxCalls), alone: make(chan struct{}, 1)}
}

// enter takes one place.
func (g gate) enter(ctx context.Context) error {
	select {
	case g.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enterNow takes one if it is to be had.
func (g gate) enterNow() bool {
	select {
	case g.places <- struct{}{}:
		return true
	default:
		return false
	}
}

func (g gate) leave() { <-g.places }

// enterAlone waits for every call under way and holds off new ones.
func (g gate) enterAlone(ctx context.Context) error {
	select {
	case g.alone <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	for i := range maxCalls {
		if err := g.enter(ctx); err != nil {
			for range i {
				g.leave()
			}
			<-g.alone
			return err
		}
	}
	return nil
}

func (g gate) leaveAlone() {
	for range maxCalls {
		g.leave()
	}
	<-g.alone
}
