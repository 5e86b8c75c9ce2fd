package actors_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/ops"
	"github.com/troupehq/troupe/testkit"
)

// BenchmarkDrainScraped drains jobs as BenchmarkDrain does, in pairs: once with the metrics
// read at its start and each second, once without. The one that comes first changes from pair
// to pair. It reports the medians, and that of the ratios: -benchtime 15x makes 15 pairs.
// Budget: a ratio of 0.97.
func BenchmarkDrainScraped(b *testing.B) {
	const n = 300_000 // two seconds, or so
	rdb := testkit.Redis(b)
	var rates [2][]float64 // without, with
	var ratios []float64
	for pair := range b.N {
		var now [2]float64
		for turn := range 2 {
			scraped := (pair + turn) % 2
			if err := rdb.FlushDB(ctx).Err(); err != nil {
				b.Fatal(err)
			}
			preload(b, rdb, n)
			created := make(chan *actors.Daemon, 1)
			stop := func() {}
			if scraped == 1 {
				stop = scrapeEach(b, time.Second, created)
			}
			began := time.Now()
			k := drain(b, rdb, fetch.NewReliable, n, func(d *actors.Daemon) { created <- d })
			now[scraped] = n / time.Since(began).Seconds()
			stop()
			k.Stop()
			rates[scraped] = append(rates[scraped], now[scraped])
		}
		ratios = append(ratios, now[1]/now[0])
	}
	b.ReportMetric(median(rates[0]), "jobs/s")
	b.ReportMetric(median(rates[1]), "jobs/s-scraped")
	b.ReportMetric(median(ratios), "ratio")
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// scrapeEach scrapes a daemon at once and then at each interval, until stop is called.
func scrapeEach(b *testing.B, interval time.Duration, created <-chan *actors.Daemon) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		handler := ops.Handler(<-created)
		for tick := time.Tick(interval); ; {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			if w.Code != 200 {
				b.Errorf("status %d", w.Code)
			}
			select {
			case <-tick:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
