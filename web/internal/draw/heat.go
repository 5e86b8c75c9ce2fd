package draw

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/words"
)

// Heat is a map of run times: a column a span of time, a row a bucket, the slowest on top.
type Heat struct {
	Cells []inspect.Runs
	Span  time.Duration
}

// Known reports whether there are run times.
func (h Heat) Known() bool {
	return slices.ContainsFunc(h.Cells, func(c inspect.Runs) bool { return c.Quantile(1) > 0 })
}

// bounds are the buckets that are drawn, from the first to the last one with runs.
func (h Heat) bounds() (low, high int) {
	low, high = len(inspect.RunLimits), 0
	for i := range h.Cells {
		for k, n := range h.Cells[i].Buckets {
			if n > 0 {
				low, high = min(low, k), max(high, k)
			}
		}
	}
	return max(low-1, 0), min(high+1, len(inspect.RunLimits))
}

// heatColors is how many shades there are; a run more doubles far below, and little above.
const heatColors = 5

// SVG is the drawing.
func (h Heat) SVG() template.HTML {
	const left, top, rowHigh, wide = 54, 2, 14, 600
	low, high := h.bounds()
	most := int64(1)
	for i := range h.Cells {
		for _, n := range h.Cells[i].Buckets {
			most = max(most, n)
		}
	}
	rows := high - low + 1
	column := float64(wide-left) / float64(len(h.Cells))
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="heat" viewBox="0 0 %d %d" aria-hidden="true" focusable="false">`, wide, top+rows*rowHigh+18)
	for k := low; k <= high; k++ {
		y := top + (high-k)*rowHigh
		if (high-k)%2 == 0 || rows < 12 {
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, left-6, y+11, bucketName(k))
		}
		for i := range h.Cells {
			level := 0
			if n := h.Cells[i].Buckets[k]; n > 0 {
				level = 1
				for part := most; part > n && level < heatColors; part /= 4 {
					level++
				}
				level = heatColors + 1 - level
			}
			fmt.Fprintf(&b, `<rect class="h%d" x="%.1f" y="%d" width="%.1f" height="%d"/>`, level, left+float64(i)*column, y, max(column-1, 1), rowHigh-1)
		}
	}
	step := (len(h.Cells) + 7) / 8
	for i := 0; i < len(h.Cells); i += step {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d">%s</text>`, left+float64(i)*column, top+rows*rowHigh+13, h.Cells[i].At.UTC().Format("15:04"))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // numbers of ours
}

// bucketName is the upper end of a bucket.
func bucketName(k int) string {
	if k == len(inspect.RunLimits) {
		return "&gt; " + bucketName(k-1)
	}
	return words.Exact(inspect.RunLimits[k].Seconds())
}
