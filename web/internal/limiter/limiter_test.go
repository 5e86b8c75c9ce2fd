package limiter

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
)

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(12*time.Second, 5)
		count := func(name string) (n int) {
			for range 100 {
				if l.Pass(name) {
					n++
				}
			}
			return n
		}
		harness.Equal(t, "at once", count("a"), 5)
		if time.Sleep(25 * time.Second); count("a") != 2 {
			t.Error("not two after 25 seconds")
		}
		if time.Sleep(time.Hour); count("a") != 5 {
			t.Error("not five after an hour")
		}
		for i := range 100_000 {
			l.Pass(fmt.Sprint(i))
		}
	})
}
