package laravel_test

import (
	"fmt"

	"github.com/troupehq/troupe/wire/laravel"
)

// What PHP writes for
//
//	new Resize(width: 640, order: $order, kind: Kind::Thumbnail, at: new DateTime('2024-07-15 12:00 Europe/Berlin'))
//
// where $order is an Eloquent model.
func ExampleParseObject() {
	job, err := laravel.ParseObject(`O:15:"App\Jobs\Resize":5:{s:5:"width";i:640;` +
		`s:5:"order";O:45:"Illuminate\Contracts\Database\ModelIdentifier":2:{s:5:"class";s:9:"App\Order";s:2:"id";i:7;}` +
		`s:4:"kind";E:23:"App\Jobs\Kind:Thumbnail";` +
		`s:2:"at";O:8:"DateTime":3:{s:4:"date";s:26:"2024-07-15 12:00:00.000000";s:13:"timezone_type";i:3;s:8:"timezone";s:13:"Europe/Berlin";}` +
		`s:5:"queue";s:6:"images";}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(job.Class)
	for _, p := range job.Data() {
		fmt.Println("property", p.Name)
	}
	fmt.Println(job.Int("width"))
	if order, err := job.Object("order"); err == nil {
		fmt.Println(order.Int("id"))
	}
	if kind, ok := job.Get("kind"); ok {
		fmt.Println(kind == laravel.Enum{Class: `App\Jobs\Kind`, Case: "Thumbnail"})
	}
	fmt.Println(job.Time("at"))
	fmt.Println(job.String("format"))
	// Output:
	// App\Jobs\Resize
	// property width
	// property order
	// property kind
	// property at
	// 640 <nil>
	// 7 <nil>
	// true
	// 2024-07-15 12:00:00 +0200 CEST <nil>
	//  laravel: App\Jobs\Resize has no property format here, expected string (Laravel leaves out what equals its default)
}
