package laravel

import (
	"errors"
	"fmt"
	"time"
)

// Time returns the value of a property that is a date: DateTime, DateTimeImmutable or Carbon.
func (o *Object) Time(name string) (time.Time, error) {
	d, err := o.Object(name)
	if err != nil {
		return time.Time{}, err
	}
	date, err1 := d.String("date")
	form, err2 := d.Int("timezone_type")
	zone, err3 := d.String("timezone")
	if err := errors.Join(err1, err2, err3); err != nil {
		return time.Time{}, err
	}
	t := time.Time{}
	where, ok := location(form, zone)
	if ok {
		t, err = time.ParseInLocation(time.DateTime, date, where) // it reads fractions, too
	}
	if !ok || err != nil {
		return t, fmt.Errorf("laravel: the property %s of %s is not understood, expected a date as PHP writes it, in a time zone that is known here (it is %.40q, of type %d)", name, o.Class, zone, form)
	}
	return t, nil
}

// location returns a time zone that PHP names in one of three forms.
func location(form int64, name string) (*time.Location, bool) {
	switch form {
	case 1:
		for _, layout := range []string{"-07:00", "-07:00:00"} {
			if t, err := time.Parse(layout, name); err == nil {
				_, offset := t.Zone()
				return time.FixedZone(name, offset), true
			}
		}
	case 2:
		hours, ok := abbreviations[name]
		return time.FixedZone(name, hours*60*60), ok
	case 3:
		zone, err := time.LoadLocation(name)
		return zone, err == nil && name != "" && name != "Local" // which mean something to Go only
	}
	return nil, false
}

// abbreviations are hours east of Greenwich, of names on which PHP, RFC 2822 and usage agree.
var abbreviations = map[string]int{
	"Z": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "BST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "JST": 9,
	"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
}
