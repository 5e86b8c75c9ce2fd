package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"html/template"
	"net/http"
	"sync"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/web/internal/limiter"
	"github.com/troupehq/troupe/web/internal/proxies"
	"github.com/troupehq/troupe/web/internal/users"
)

// Handler is the dashboard. It is safe for concurrent use.
type Handler struct {
	options    Options
	fleet      *fleet.Fleet
	sampler    *sampler
	tasks      *bulk.Tasks
	looks      shared
	routes     []route
	templates  map[string]*template.Template
	origin     *http.CrossOriginProtection
	users      *users.File // nil if there is none
	proxies    proxies.List
	logIns     *limiter.Limiter // attempts, by address and by name
	actions    *limiter.Limiter // by user
	strangers  *limiter.Limiter // what people send who are not signed in, by address
	checks     chan struct{}    // room for passwords that are checked now
	revealMu   sync.Mutex
	reveals    map[string]time.Time // when one was last audited
	keyMu      sync.Mutex
	key        string // of digests, see secret
	keyKnown   bool   // it is that of Redis
	openMu     sync.Mutex
	open       map[string]int  // live connections, by user, by address, and all of them as ""
	liveWrite  time.Duration   // that a client of one may take to read
	looksApart time.Duration   // between the two looks for missing jobs of a batch
	ctx        context.Context //nolint:containedctx // its end is Close
	cancel     context.CancelFunc
}

// New returns the dashboard of a Redis. Nothing is sent before the first request. Close it.
func New(o Options) (*Handler, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	h := &Handler{
		options: o, fleet: fleet.New(o.Redis, mask.New(o.Args, o.MaskKeys, o.MaskArgs)), origin: http.NewCrossOriginProtection(), key: rand.Text(), liveWrite: liveWrite, looksApart: inspect.BatchLooks,
		logIns: limiter.New(12*time.Second, 5), actions: limiter.New(time.Second/10, 10), strangers: limiter.New(time.Second, 10), open: map[string]int{}, checks: make(chan struct{}, mostChecks), reveals: map[string]time.Time{},
	}
	h.proxies, _ = proxies.Parse(o.TrustProxies) // checked
	if o.Origin != "" {
		_ = h.origin.AddTrustedOrigin(o.Origin) // checked
	}
	if o.Users != "" {
		var err error
		if h.users, err = users.Open(o.Users, o.Logger, checkRole); err != nil {
			return nil, fmt.Errorf("web: Options.Users: %w", err)
		}
	}
	h.routes = routes(o.ReadOnly, h.users != nil)
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.fleet.Inspector.DeadMax, h.fleet.Inspector.DeadTimeout = o.DeadMax, o.DeadTimeout
	h.sampler = newSampler(h.ctx, h.fleet)
	h.tasks = bulk.NewTasks(h.ctx, func(err error) string { return faultOf(err).Text })
	var err error
	h.templates, err = parseTemplates()
	return h, err
}

// Close ends background work (a bulk task ends between two jobs) and open live connections. Later requests are refused.
func (h *Handler) Close() {
	h.cancel()
	h.sampler.wait()
	h.tasks.Wait()
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	passedOn := r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("X-Real-Ip") != "" || r.Header.Get("Forwarded") != ""
	r, secure := h.proxies.Undo(r, h.options.UserHeader, h.options.RoleHeader)
	base, path := h.base(r)
	if serveStatic(w, r, path) {
		return
	}
	q := &request{Handler: h, Request: r, w: w, base: base, path: path, secure: secure, passedOn: passedOn}
	if h.ctx.Err() != nil {
		q.fail(&fault{Status: http.StatusServiceUnavailable, Text: "The dashboard is being stopped.", Do: "Try again in a moment."})
		return
	}
	p, err := q.serve()
	switch {
	case err != nil:
		q.fail(err)
	case p != nil:
		q.render(p)
	}
}

// serve finds the route of a request, checks the rights, and calls it.
func (r *request) serve() (p *page, err error) {
	rt, missing := r.match()
	r.user, err = r.authenticate()
	if r.Method == http.MethodPost && r.user.Role == 0 && !r.strangers.Pass(proxies.Network(r.RemoteAddr)) {
		r.w.Header().Set("Retry-After", "1")
		return nil, errFlood // it is not in the audit, which it were to fill
	}
	if rt != nil && rt.changes() {
		defer func() { r.audit(rt, p, err) }()
	}
	if err != nil && (rt == nil || !rt.session) {
		return nil, err
	}
	if rt == nil {
		return nil, missing
	}
	if err := r.allowed(rt); err != nil {
		return nil, err
	}
	if r.revealed() && !rt.changes() {
		r.auditReveal(rt)
	}
	if rt.live != nil {
		return nil, rt.live(r)
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageTime)
	defer cancel()
	r.Request = r.WithContext(ctx)
	return rt.page(r)
}

var errFlood = &fault{Status: http.StatusTooManyRequests, Text: "These are more than ten requests from your address at once, and you are not signed in.", Do: "Wait a moment, then try again."}

// allowed returns an error if the user may not do this, does it too often, or has not asked for it (CSRF).
func (r *request) allowed(rt *route) error {
	if rt.changes() && !rt.session && !r.actions.Pass(r.user.Name+" "+r.via) {
		r.w.Header().Set("Retry-After", "1")
		return &fault{Status: http.StatusTooManyRequests, Text: "These are more than ten actions a second.", Do: "Wait a moment, then try again."}
	}
	if r.user.Role < rt.role {
		return &fault{
			Status: http.StatusForbidden, Text: "This needs the role " + rt.role.String() + ", and " + cmp.Or(r.user.Name, "you") + " has the role " + r.user.Role.String() + ".",
			Do: "Ask an admin of this dashboard to do it, or for the role.",
		}
	}
	return r.fresh()
}
