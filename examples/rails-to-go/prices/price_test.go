package main

import (
	"errors"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/testkit"
)

// The arguments are given as Ruby writes them: a hash is a map with string keys.
func TestPricesAreThoseOfRuby(t *testing.T) {
	shop := &Shop{Redis: testkit.NewMemory(t).Client}
	shop.Redis.HSet(t.Context(), "shop:articles", "tea", 450, "cup", 1290)
	var jobs troupe.Registry
	troupe.Handle(&jobs, shop.Price)
	basket := []any{map[string]any{"article": "tea", "count": 3}, map[string]any{"article": "cup", "count": 1}}
	for coupon, want := range map[any]string{nil: "2640", "TEN": "2376", "OTHER": "2640"} {
		if err := testkit.PerformClass(t, t.Context(), &jobs, "PriceWorker", []any{1000, basket, coupon}); err != nil {
			t.Fatal(err)
		}
		if got := shop.Redis.HGet(t.Context(), "shop:prices", "1000").Val(); got != want {
			t.Errorf("coupon %v: %s cents, want %s", coupon, got, want)
		}
	}
}

func TestAnUnknownArticleFailsAsInRuby(t *testing.T) {
	shop := &Shop{Redis: testkit.NewMemory(t).Client}
	err := testkit.Perform(t, t.Context(), shop.Price, Price{OrderID: 1000, Basket: []Line{{Article: "spoon", Count: 1}}})
	if !errors.Is(err, UnknownArticle{Article: "spoon"}) || err.Error() != "no article spoon" {
		t.Errorf("error %v", err)
	}
	if n := shop.Redis.Exists(t.Context(), "shop:prices").Val(); n != 0 {
		t.Error("a price was written")
	}
}
