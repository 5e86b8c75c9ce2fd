package main

import (
	"testing"

	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/wire/laravel"
)

func TestThumb(t *testing.T) {
	rdb := testkit.Redis(t)
	shop := &Shop{Redis: rdb, Queue: laravel.NewClient(rdb, prefix)}
	for _, c := range []struct {
		size [2]int
		want string
	}{{[2]int{800, 600}, "160x120"}, {[2]int{1, 1000}, "1x160"}, {[2]int{20, 10}, "20x10"}, {[2]int{0, 5}, ""}} {
		err := testkit.Perform(t, t.Context(), shop.Thumb, Thumbnail{Picture: "a", Size: c.size})
		if (err != nil) != (c.want == "") {
			t.Errorf("%v: %v", c.size, err)
		}
		if got := rdb.HGet(t.Context(), "shop:thumbnails", "a").Val(); err == nil && got != c.want {
			t.Errorf("%v is %s, expected %s", c.size, got, c.want)
		}
	}
	if n := rdb.LLen(t.Context(), prefix+"queues:mails").Val(); n != 3 {
		t.Errorf("%d mails, expected 3", n)
	}
}
