package client

import (
	"reflect"
	"slices"

	"github.com/troupehq/troupe"
)

// base is what a push of args begins with: the client's defaults, and over them
// those of the type. Without args, as for a push by class, it is the client's.
func (c *Client) base(args troupe.Args) (*options, error) {
	if c == nil || c.plain == nil {
		return nil, errNotMade
	}
	if args == nil {
		return c.plain, nil
	}
	t := reflect.TypeOf(args)
	if o, ok := c.types.Load(t); ok {
		return o.(*options), nil
	}
	own, err := troupe.DefaultsOf(args)
	if err != nil {
		return nil, err
	}
	o := c.plain
	if list := ofType(own); len(list) > 0 {
		o = c.plain.with(list, c.err)
	}
	c.types.Store(t, o)
	return o, nil
}

// ofType are the options of own that belong to a push. The daemon has the others.
func ofType(own troupe.Options) (opts []Option) {
	add := func(set bool, opt Option) {
		if set {
			opts = append(opts, opt)
		}
	}
	retries, set := own.Retries.Limit()
	add(set && retries < 0, Never())
	add(set && retries >= 0, Retry(retries))
	add(own.Queue != "", Queue(own.Queue))
	add(own.RetryQueue != "", RetryQueue(own.RetryQueue))
	add(own.Dead != nil, Dead(own.Dead != nil && *own.Dead))
	add(own.Backtrace != 0, Backtrace(own.Backtrace))
	add(own.Tags != nil, Tags(own.Tags...))
	if own.Unique != nil {
		add(true, Unique(*own.Unique))
	}
	add(own.ResultFor != 0, KeepResult(own.ResultFor))
	add(own.Encrypt, Encrypt(true))
	return opts
}

// with returns o with opts over it. err is the client's.
func (o *options) with(opts []Option, err error) *options {
	next := &options{fields: slices.Clone(o.fields), unique: o.unique, encrypt: o.encrypt}
	next.spanned = slices.ContainsFunc(o.fields, func(f field) bool { return f.key == "retry_for" })
	for _, opt := range opts {
		if opt == nil {
			next.fail(errNilOption)
			continue
		}
		opt(next)
	}
	next.settle(err)
	return next
}
