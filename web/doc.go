// Package web is the dashboard: pages that show and control a fleet of processes, of Ruby and of
// troupe. It reads Redis only. A Handler is an http.Handler to mount under any prefix:
//
//	dashboard, err := web.New(web.Options{Redis: rdb, Authorize: who})
//	mux.Handle("/jobs/", http.StripPrefix("/jobs", dashboard))
//
// The pages work without JavaScript, and each is there as JSON, too. Without a way to sign in they
// serve this machine only. Ways to sign in are Options.Authorize, Options.Users, or a proxy's Options.UserHeader. docs/web.md
// has the rest.
//
// # How a page is added
//
//  1. A line in the table of routes.go: method, path, the least role, the function. Its path
//     decides its position in the navigation, see navigation.
//  2. The function, func(r *request) (*page, error), in a file of its own. It fills a struct with
//     json tags, which is also the JSON, and returns &page{Template, Title, Data}. Texts of
//     jobs go through request.job and request.mask, which mask.
//  3. templates/NAME.html with a block "main". $ is a *view, its Data the struct. A partial gets
//     its data by {{template "jobs" ($.With .Jobs)}}; links are {{$.URL "queues" .Name}}.
//  4. A line in the table of pages_test.go, which tests the roles, the JSON and the links.
//
// An action is a line with POST. Its function does one thing and returns r.done(path, counts,
// "the sentence that says what happened"): people are sent back to a page with that sentence,
// programs get it as JSON. An action that cannot be undone asks first, with a page "confirm".
package web
