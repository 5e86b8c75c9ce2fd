//go:build screenshots

package browser

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var before = flag.Duration("before", 11*time.Minute, "how long the shop runs before its pictures are taken")

// TestScreenshots takes a picture of each page but the plain ones, or of those that are named after the
// flags, into docs/img.
func TestScreenshots(t *testing.T) {
	s := openShop(t, *before)
	b := open(t, s.base)
	for _, p := range s.pages() {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), p.name) || flag.NArg() == 0 && p.plain {
			continue
		}
		for _, kind := range []struct {
			name, theme       string
			wide, least, high int64
		}{{"light", "light", 1280, 500, 1000}, {"dark", "dark", 1280, 500, 1000}, {"phone", "light", 390, 700, 1300}} {
			b.do(b.prefer(kind.theme), b.size(kind.wide, kind.least))
			b.show(p)
			b.do(b.size(kind.wide, min(max(run[int64](b, `document.documentElement.scrollHeight`), kind.least), kind.high)))
			file := filepath.Join("..", "..", "docs", "img", p.name+"-"+kind.name+".png")
			if err := os.WriteFile(file, small(t, b.picture()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (b *tab) picture() []byte {
	b.t.Helper()
	shot, err := chromedp.Run(b.ctx, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		r, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{})
		return r.Data, err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return shot
}

// small makes a picture have its 256 most frequent colors: others become the nearest of those.
func small(t *testing.T, shot []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	count := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(full.At(x, y)).(color.RGBA) }
	box := full.Bounds()
	for y := range box.Dy() {
		for x := range box.Dx() {
			count[at(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(count[b]-count[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	palette := color.Palette{}
	for _, c := range colors[:min(len(colors), 256)] {
		palette = append(palette, c)
	}
	index := map[color.RGBA]uint8{}
	for _, c := range colors {
		index[c] = uint8(palette.Index(c))
	}
	out := image.NewPaletted(box, palette)
	for y := range box.Dy() {
		for x := range box.Dx() {
			out.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	var text bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&text, out); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}
