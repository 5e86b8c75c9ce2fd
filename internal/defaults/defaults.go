// Package defaults is the way by which the client reads the options of a type.
package defaults

// Of returns the troupe.Options of the type of args, a troupe.Args, from its method
// Defaults; none if it has no such method. The method is called on a zero value, and may
// have a pointer receiver. Options that are out of range are an error that names the field;
// a panic of the method is a *troupe.PanicError.
//
// Package troupe sets it.
var Of func(args any) (options any, err error)
