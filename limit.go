package troupe

import (
	"fmt"
	"regexp"
	"time"
)

// Limit says how many jobs run at once, or how many start in a time, in all processes together: of a class in
// Options.Limits, of a queue in actors.Config.QueueLimits. A job that has several keeps all. One that finds no room is
// held in Redis until there is: it takes no processor, and has not failed. The oldest starts first.
//
// What is written here is what a daemon tells Redis when it starts; "troupe limits set" changes it for all processes, until
// "troupe limits reset".
type Limit struct {
	// Name tells limits apart: classes and queues with the same name share one. Letters, digits and _ . -; with Throttled also
	// colons. It must be set.
	Name string

	// AtOnce is how many jobs run at once. Either it or Rate is set; neither with a Breaker alone.
	AtOnce int

	// Rate is how many jobs start in the time Per, one second if that is unset. They start evenly: in any time Per at
	// most Rate + Burst - 1.
	Rate int
	Per  time.Duration

	// Burst is how many jobs may start together after a pause. Unset, it is what comes in 10 ms, and at least 1.
	Burst int

	// By counts apart what differs in an argument: "0" is the first argument, "0.id" the field id of it, and "id" is short for
	// "0.id". A job whose arguments have no such place fails. Unset, all jobs count together.
	By string

	// Key does so by a text of its own. It may be called concurrently; an error of it is the job's. Not beside By.
	Key func(p *Payload) (string, error)

	// Breaker stops calling what is down: see Breaker. nil: none. A limit may have it alone, without AtOnce and Rate. Not beside
	// Throttled.
	Breaker *Breaker

	// Throttled counts on the key of the gem sidekiq-throttled, version 1 or later, so that the jobs of Ruby processes count,
	// too: Name is that of its strategy, as a rule the class in Ruby, and the text of By or Key its key_suffix. Only with AtOnce.
	Throttled bool
}

var limitName, throttledName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`), regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,100}$`)

// Validate tells what is wrong with l.
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
