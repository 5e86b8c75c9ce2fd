package limits

import (
	"fmt"
	"time"
)

// Recovery tells what is wrong with the fields of a troupe.Recovery. At most one may be set.
func Recovery(queue string, delay time.Duration, dead bool) error {
	set := 0
	for _, is := range []bool{queue != "", delay != 0, dead} {
		if is {
			set++
		}
	}
	if set > 1 {
		return fmt.Errorf("recovery {Queue:%s Delay:%v Dead:%v}: several places, expected one", queue, delay, dead)
	}
	if delay < 0 {
		return fmt.Errorf("recovery: delay %v, expected more than 0", delay)
	}
	return nil
}
