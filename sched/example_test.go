package sched_test

import (
	"fmt"
	"time"

	"github.com/troupehq/troupe/sched"
)

// The next ticks of a line, on the night in which the clocks of Berlin are put forward: 02:30 does not come.
func ExampleParse() {
	line, err := sched.Parse("30 2 * * * Europe/Berlin", time.UTC)
	if err != nil {
		panic(err)
	}
	at := time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC)
	for range 2 {
		at = line.Next(at)
		fmt.Println(at.In(line.Location()).Format("Mon 2 Jan 15:04 MST"))
	}
	at = time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
	fmt.Println(line.Once().Next(at).In(line.Location()).Format("Mon 2 Jan 15:04 MST"))

	_, err = sched.Parse("0 25 * * *", time.UTC)
	fmt.Println(err)
	// Output:
	// Sat 28 Mar 02:30 CET
	// Mon 30 Mar 02:30 CEST
	// Sun 29 Mar 03:00 CEST
	// cron line "0 25 * * *": hour "25": expected 0 to 24
}
