// Package handler has the handlers for people who write no Go: a program per
// job (NewExec), a request per job (NewHTTP), and a few built-in ones. They are raw
// troupe.Handler values; the configuration file is where they usually come from.
package handler
