package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// route is one address.
type route struct {
	method string
	path   string // {name} is any one segment
	role   Role   // the least
	page   func(*request) (*page, error)
	live   func(*request) error // instead of page: it answers itself, for as long as it likes

	session bool // to sign in and out: for everybody, if there are users
}

// changes reports whether it changes something.
func (rt route) changes() bool { return rt.method == http.MethodPost }

// allRoutes are all addresses but those of static files: the one table of what there is and who
// may use it.
var allRoutes = append(setRoutes("retry", "scheduled", "dead"), []route{
	{method: "GET", path: "/", role: Viewer, page: now((*request).overview)},
	{method: "GET", path: "/queues", role: Viewer, page: now((*request).queues)},
	{method: "GET", path: "/queues/{name}", role: Viewer, page: now((*request).queue)},
	{method: "POST", path: "/queues/{name}/pause", role: Operator, page: (*request).setPaused},
	{method: "POST", path: "/queues/{name}/unpause", role: Operator, page: (*request).setPaused},
	{method: "POST", path: "/queues/{name}/delete", role: Operator, page: (*request).deleteQueued},
	{method: "GET", path: "/queues/{name}/export", role: Viewer, live: func(r *request) error { return r.export(queueKind(r.name("name"))) }},
	{method: "POST", path: "/queues/{name}/ticked", role: Operator, page: onQueue((*request).ticked)},
	{method: "GET", path: "/queues/{name}/all", role: Admin, page: onQueue((*request).preview)},
	{method: "POST", path: "/queues/{name}/all", role: Admin, page: onQueue((*request).startBulk)},
	{method: "GET", path: "/queues/{name}/clear", role: Admin, page: asked((*request).clearQueue)},
	{method: "POST", path: "/queues/{name}/clear", role: Admin, page: asked((*request).clearQueue)},
	{method: "GET", path: "/running", role: Viewer, page: now((*request).runningJobs)},
	{method: "GET", path: "/jobs/{jid}", role: Viewer, page: (*request).jobPage},
	{method: "POST", path: "/jobs/{jid}/cancel", role: Operator, page: (*request).cancelJob},
	{method: "GET", path: "/periodic", role: Viewer, page: (*request).periodicJobs},
	{method: "GET", path: "/periodic/{name}", role: Viewer, page: (*request).periodicOne},
	{method: "POST", path: "/periodic/{name}/enable", role: Operator, page: periodicDo((*request).setPeriodic)},
	{method: "POST", path: "/periodic/{name}/disable", role: Operator, page: periodicDo((*request).setPeriodic)},
	{method: "POST", path: "/periodic/{name}/push", role: Operator, page: periodicDo((*request).pushPeriodic)},
	{method: "GET", path: "/periodic/{name}/delete", role: Admin, page: asked((*request).deletePeriodic)},
	{method: "POST", path: "/periodic/{name}/delete", role: Admin, page: asked((*request).deletePeriodic)},
	{method: "GET", path: "/locks", role: Viewer, page: (*request).locks},
	{method: "GET", path: "/locks/free", role: Operator, page: asked((*request).freeLock)},
	{method: "POST", path: "/locks/free", role: Operator, page: asked((*request).freeLock)},
	{method: "GET", path: "/limits", role: Viewer, page: (*request).limits},
	{method: "GET", path: "/limits/held", role: Viewer, page: (*request).held},
	{method: "POST", path: "/limits/held/ticked", role: Operator, page: onRule((*request).ticked)},
	{method: "GET", path: "/limits/held/all", role: Admin, page: onRule((*request).preview)},
	{method: "POST", path: "/limits/held/all", role: Admin, page: onRule((*request).startBulk)},
	{method: "GET", path: "/limits/rest", role: Operator, page: asked((*request).rest)},
	{method: "POST", path: "/limits/rest", role: Operator, page: asked((*request).rest)},
	{method: "GET", path: "/limits/release", role: Operator, page: asked((*request).release)},
	{method: "POST", path: "/limits/release", role: Operator, page: asked((*request).release)},
	{method: "GET", path: "/limits/set", role: Operator, page: asked((*request).setLimit)},
	{method: "POST", path: "/limits/set", role: Operator, page: asked((*request).setLimit)},
	{method: "GET", path: "/limits/reset", role: Operator, page: asked((*request).resetLimit)},
	{method: "POST", path: "/limits/reset", role: Operator, page: asked((*request).resetLimit)},
	{method: "GET", path: "/batches", role: Viewer, page: (*request).batches},
	{method: "GET", path: "/batches/{id}", role: Viewer, page: (*request).batch},
	{method: "GET", path: "/batches/{id}/close", role: Operator, page: asked((*request).closeBatch)},
	{method: "POST", path: "/batches/{id}/close", role: Operator, page: asked((*request).closeBatch)},
	{method: "GET", path: "/batches/{id}/count-out", role: Admin, page: asked((*request).countOut)},
	{method: "POST", path: "/batches/{id}/count-out", role: Admin, page: asked((*request).countOut)},
	{method: "GET", path: "/batches/{id}/cancel", role: Admin, page: asked((*request).cancelBatch)},
	{method: "POST", path: "/batches/{id}/cancel", role: Admin, page: asked((*request).cancelBatch)},
	{method: "GET", path: "/search", role: Viewer, page: (*request).search},
	{method: "GET", path: "/tasks", role: Viewer, page: (*request).taskList},
	{method: "GET", path: "/tasks/{id}", role: Viewer, page: (*request).taskPage},
	{method: "POST", path: "/tasks/{id}/cancel", role: Admin, page: (*request).cancelTask},
	{method: "GET", path: "/audit", role: Admin, page: (*request).auditList},
	{method: "GET", path: "/login", session: true, page: (*request).askLogIn},
	{method: "POST", path: "/login", session: true, page: (*request).logIn},
	{method: "POST", path: "/logout", session: true, page: (*request).logOut},
	{method: "GET", path: "/processes", role: Viewer, page: now((*request).processes)},
	{method: "GET", path: "/processes/quiet", role: Operator, page: asked(orderedTo(quiet))},
	{method: "POST", path: "/processes/quiet", role: Operator, page: asked(orderedTo(quiet))},
	{method: "GET", path: "/processes/stop", role: Admin, page: asked(orderedTo(stop))},
	{method: "POST", path: "/processes/stop", role: Admin, page: asked(orderedTo(stop))},
	{method: "POST", path: "/processes/dump", role: Operator, page: asked(orderedTo(dump))},
	{method: "GET", path: "/processes/{id}/quiet", role: Operator, page: asked(orderedTo(quiet))},
	{method: "POST", path: "/processes/{id}/quiet", role: Operator, page: asked(orderedTo(quiet))},
	{method: "GET", path: "/processes/{id}/stop", role: Admin, page: asked(orderedTo(stop))},
	{method: "POST", path: "/processes/{id}/stop", role: Admin, page: asked(orderedTo(stop))},
	{method: "POST", path: "/processes/{id}/dump", role: Operator, page: asked(orderedTo(dump))},
	{method: "GET", path: "/tree", role: Viewer, page: now((*request).fleetTree)},
	{method: "GET", path: "/tree/{id}", role: Viewer, page: now((*request).processTree)},
	{method: "GET", path: "/classes", role: Viewer, page: (*request).classes},
	{method: "GET", path: "/classes/{class}", role: Viewer, page: (*request).class},
	{method: "GET", path: "/events", role: Viewer, page: (*request).events},
	{method: "GET", path: "/orphans", role: Viewer, page: now((*request).orphans)},
	{method: "GET", path: "/orphans/rescue", role: Admin, page: asked((*request).rescue)},
	{method: "POST", path: "/orphans/rescue", role: Admin, page: asked((*request).rescue)},
	{method: "GET", path: "/stats", role: Viewer, page: (*request).stats},
	{method: "GET", path: "/stats/queues", role: Viewer, page: (*request).statsQueues},
	{method: "GET", path: "/live", role: Viewer, live: (*request).live},
}...)

// setRoutes are the addresses of sets.
func setRoutes(names ...string) (all []route) {
	for _, name := range names {
		path := "/" + setKinds[name].Path
		all = append(all,
			route{method: "GET", path: path, role: Viewer, page: on(name, (*request).set)},
			route{method: "GET", path: path + "/export", role: Viewer, live: func(r *request) error { return r.export(setKinds[name]) }},
			route{method: "POST", path: path + "/ticked", role: Operator, page: on(name, (*request).ticked)},
			route{method: "GET", path: path + "/all", role: Admin, page: on(name, (*request).preview)},
			route{method: "POST", path: path + "/all", role: Admin, page: on(name, (*request).startBulk)})
	}
	return all
}

// routes are those that there are. Read-only, pages that only lead to a change are gone, too.
func routes(readOnly, users bool) []route {
	return slices.DeleteFunc(slices.Clone(allRoutes), func(rt route) bool {
		if rt.session {
			return !users
		}
		return readOnly && (rt.changes() || slices.ContainsFunc(allRoutes, func(o route) bool { return o.changes() && o.path == rt.path }))
	})
}

// item is an entry of the navigation.
type item struct {
	Title, Path, Key string // Key follows g on the keyboard
	Now              bool   // the page is it, or below it
}

// navigation has the items in their order. Items without a route, and those that the user may not see, are left out.
var navigation = []item{
	{Title: "Overview", Path: "/", Key: "o"},
	{Title: "Queues", Path: "/queues", Key: "q"},
	{Title: "Running", Path: "/running", Key: "u"},
	{Title: "Retries", Path: "/retries", Key: "r"},
	{Title: "Scheduled", Path: "/scheduled", Key: "s"},
	{Title: "Dead", Path: "/dead", Key: "d"},
	{Title: "Periodic", Path: "/periodic", Key: "i"},
	{Title: "Batches", Path: "/batches", Key: "h"},
	{Title: "Limits", Path: "/limits", Key: "m"},
	{Title: "Locks", Path: "/locks", Key: "l"},
	{Title: "Tasks", Path: "/tasks", Key: "b"},
	{Title: "Processes", Path: "/processes", Key: "p"},
	{Title: "Tree", Path: "/tree", Key: "t"},
	{Title: "Classes", Path: "/classes", Key: "c"},
	{Title: "Events", Path: "/events", Key: "e"},
	{Title: "Orphans", Path: "/orphans", Key: "n"},
	{Title: "Audit", Path: "/audit", Key: "a"},
}

// has reports whether there is an address that a role may use.
func (h *Handler) has(method, path string, role Role) bool {
	return slices.ContainsFunc(h.routes, func(rt route) bool { return rt.method == method && rt.path == path && role >= rt.role })
}

// match finds the route of the request, and fills in the names of its path. The path ends with
// .json if that is wanted.
func (r *request) match() (*route, error) {
	path := r.path
	if cut, ok := strings.CutSuffix(path, ".json"); ok {
		path, r.json = strings.TrimSuffix(cut, "/index"), true
		if path == "" {
			path = "/"
		}
	}
	var allow []string
	for i := range r.routes {
		rt := &r.routes[i]
		names, ok := rt.match(path)
		switch {
		case !ok:
		case rt.method == r.Method || rt.method == http.MethodGet && r.Method == http.MethodHead:
			r.names = names
			return rt, nil
		default:
			allow = append(allow, rt.method)
		}
	}
	if allow != nil {
		r.w.Header().Set("Allow", strings.Join(allow, ", "))
		return nil, &fault{Status: http.StatusMethodNotAllowed, Text: "This address takes " + strings.Join(allow, " and ") + ", not " + r.Method + "."}
	}
	return nil, notFound("There is no page at %s.", path)
}

func (rt *route) match(path string) (names map[string]string, ok bool) {
	want, got := strings.Split(rt.path, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	names = map[string]string{}
	for i, w := range want {
		text, err := url.PathUnescape(got[i])
		switch {
		case err != nil:
			return nil, false
		case strings.HasPrefix(w, "{"):
			if text == "" {
				return nil, false
			}
			names[strings.Trim(w, "{}")] = text
		case w != text:
			return nil, false
		}
	}
	return names, true
}
