// Package web is the dashboard: pages that show a fleet and steer it, from Redis alone, of Ruby
// processes and of troupe's. A Handler is an http.Handler to mount under any prefix:
//
//	dashboard, err := web.New(web.Options{Redis: rdb, Authorize: who})
//	mux.Handle("/jobs/", http.StripPrefix("/jobs", dashboard))
//
// The pages are whole without JavaScript, each has a JSON twin, and without a way to sign in they
// are for this machine alone: Options.Authorize, Options.Users, or a proxy's Options.UserHeader. docs/web.md
// has the rest.
//
// # How a page is added
//
//  1. A line in the table of routes.go: method, path, the least role, the function. A page that
//     the navigation names gets its place there by its path, see navigation.
//  2. The function, func(r *request) (*page, error), in a file of its own. It fills a struct with
//     json tags, which is the JSON twin too, and returns &page{Template, Title, Data}. Texts of
//     jobs go through request.job and request.mask, which mask.
//  3. templates/NAME.html with a block "main". $ is a *view, its Data the struct. A partial gets
//     its data by {{template "jobs" ($.With .Jobs)}}; links are {{$.URL "queues" .Name}}.
//  4. A line in the table of pages_test.go, which proves the roles, the twin and the links.
//
// An action is a line with POST. Its function does one thing and returns r.done(path, counts,
// "the sentence that says what happened"): people are sent back to a page with that sentence,
// programs get it as JSON. What cannot be taken back asks before, by a page "confirm".
package web
