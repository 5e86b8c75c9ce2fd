package cli

import (
	"context"
	"net"
)

// Listen listens on HOST:PORT, and on :PORT of the loopback interface: what has no login is reached from
// elsewhere only if somebody has said so.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
}
