package sched_test

import (
	"fmt"
	"time"

	"github.com/troupehq/troupe/sched"
)

// What a line says: its zone, its last tick, whether it is an interval that no cron line says, and which of the ticks
// of a repeated hour push.
func ExampleSchedule() {
	berlin, err := sched.Zone("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	line, err := sched.Parse("30 2 * * *", berlin)
	if err != nil {
		panic(err)
	}
	end := time.Date(2026, 10, 25, 3, 0, 0, 0, berlin) // 02:30 has come twice by then
	second := line.Prev(end)
	first := line.Prev(second.Add(-time.Second))
	fmt.Println(first.In(berlin).Format("15:04 MST"), second.In(berlin).Format("15:04 MST"))
	fmt.Println(line.Pushes(second), line.Once().Pushes(first), line.Once().Pushes(second))

	every, err := sched.Parse("every 90m", sched.Local())
	if err != nil {
		panic(err)
	}
	fmt.Println(line.Interval(), every.Interval())
	// Output:
	// 02:30 CEST 02:30 CET
	// true true false
	// false true
}
