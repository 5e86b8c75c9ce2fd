package troupe

import (
	"fmt"
	"regexp"
	"time"
)

// Limit says how many jobs run at once, or how many start in a period, in all processes together. Limits of a class are in
// Options.Limits, those of a queue in actors.Config.QueueLimits. A job under several limits starts when all have room. A job that finds
// no room is held in Redis until there is room: it takes no processor, and has not failed. The oldest held job starts first.
//
// A daemon writes its limits to Redis when it starts. "troupe limits set" changes a limit for all processes, until
// "troupe limits reset".
type Limit struct {
	// Name identifies the limit: classes and queues with a limit of the same name share it. It has letters, digits and _ . -; with
	// Throttled also colons. It must be set.
	Name string

	// AtOnce is how many jobs run at once. Either it or Rate is set; neither with a Breaker alone.
	AtOnce int

	// Rate is how many jobs start in the time Per, one second if that is unset. They start evenly: in any time Per at
	// most Rate + Burst - 1.
	Rate int
	Per  time.Duration

	// Burst is how many jobs may start together after a pause. Unset, it is what comes in 10 ms, and at least 1.
	Burst int

	// By makes the limit count separately for each value of an argument: "0" is the first argument, "0.id" its field id, and "id" is
	// short for "0.id". A job whose arguments have no such place fails. Unset, all jobs count together.
	By string

	// Key makes the limit count separately for each text that it returns. It may be called concurrently. If it returns an error, the
	// job fails with it. Key and By exclude each other.
	Key func(p *Payload) (string, error)

	// Breaker stops jobs while the service that they call is down: see Breaker. If nil, there is none. A limit may have a breaker
	// alone, without AtOnce and Rate. Breaker and Throttled exclude each other.
	Breaker *Breaker

	// Throttled counts on the key of the gem sidekiq-throttled, version 1 or later, so that the jobs of Ruby processes count,
	// too. Name is then the name of the gem's strategy, usually the class in Ruby, and the text of By or Key is its key_suffix. It needs
	// AtOnce.
	Throttled bool
}

var limitName, throttledName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`), regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,100}$`)

// Validate returns an error that says what is wrong with l.
func (l Limit) Validate() error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("limit %q: %s is %v, expected %s", l.Name, field, value, want)
	}
	switch {
	case l.Throttled && !throttledName.MatchString(l.Name):
		return bad("Name", fmt.Sprintf("%q", l.Name), "1 to 100 letters, digits and _ . : -")
	case !l.Throttled && !limitName.MatchString(l.Name):
		return bad("Name", fmt.Sprintf("%q", l.Name), "1 to 100 letters, digits and _ . -")
	case l.AtOnce < 0:
		return bad("AtOnce", l.AtOnce, "1 or more, or 0 with Rate")
	case l.Rate < 0:
		return bad("Rate", l.Rate, "1 or more, or 0 with AtOnce")
	case l.Breaker != nil && l.Breaker.Failures < 0:
		return bad("Breaker.Failures", l.Breaker.Failures, "1 or more, or 0 for none but by Rest")
	case l.Breaker != nil && (l.Breaker.Rest < 0 || l.Breaker.Rest > 0 && !restable(l.Breaker.Rest)):
		return bad("Breaker.Rest", l.Breaker.Rest, "a millisecond to a year, or 0 for a minute")
	case l.Breaker != nil && l.Throttled:
		return bad("Breaker", "set", "none with Throttled: the gem knows no breakers")
	case (l.AtOnce > 0) == (l.Rate > 0) && (l.Breaker == nil || l.AtOnce > 0):
		return fmt.Errorf("limit %q: AtOnce is %d and Rate is %d, expected one of them above 0", l.Name, l.AtOnce, l.Rate)
	case l.Rate == 0 && l.Per != 0:
		return bad("Per", l.Per, "0 without Rate")
	case l.Per < 0 || l.Per > 0 && l.Per < time.Millisecond || l.Per > 365*24*time.Hour:
		return bad("Per", l.Per, "a millisecond to a year, or 0 for a second")
	case l.Burst < 0 || l.Rate == 0 && l.Burst > 0:
		return bad("Burst", l.Burst, "1 or more with Rate, else 0")
	case l.By != "" && l.Key != nil:
		return bad("By", fmt.Sprintf("%q", l.By), "\"\" beside Key")
	case l.Throttled && l.Rate > 0:
		return bad("Throttled", true, "false with Rate: the gem counts its rates in another way")
	}
	return nil
}
