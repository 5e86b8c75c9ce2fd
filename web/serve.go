package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/troupehq/troupe/web/internal/proxies"
)

// Limits on how long a client may take to send a request, and on how long a stop may take.
const (
	headerTime = 10 * time.Second
	bodyTime   = time.Minute
	stopTime   = 5 * time.Second
)

// Serve listens on an address, HOST:PORT, calls ready, which may be nil, with the URL of the pages,
// and answers requests until ctx ends, and then those under way, five seconds at most. It refuses an
// address that other machines reach, as long as nobody has to sign in. It closes the handler.
func (h *Handler) Serve(ctx context.Context, address string, ready func(url string)) error {
	defer h.Close()
	where, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %q: %w, expected HOST:PORT like 127.0.0.1:8080", address, err)
	}
	if !h.guarded() && !proxies.Loopback(where.String()) {
		return fmt.Errorf("listen on %q: other machines reach it, and nobody has to sign in; expected an address of this machine alone like 127.0.0.1:8080, or a users file (troupe web user), or a proxy that says who asks", address)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", where.String())
	if err != nil {
		return err
	}
	if ready != nil {
		ready("http://" + l.Addr().String() + h.options.BasePath + "/")
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime, WriteTimeout: bodyTime, IdleTimeout: 2 * bodyTime}
	server.RegisterOnShutdown(h.cancel) // live connections do not end by themselves
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	err = server.Shutdown(stop)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	<-ended //nolint:errcheck // that it was shut down
	return err
}
