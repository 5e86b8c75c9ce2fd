package rescue

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// What is known of the end of a process.
const (
	causeLease = "its lease ran out"
	causeEnded = "the process has ended"
	causeThere = "the process is still there"
)

// cause tells what can be seen of the process HOST:PID:NONCE from the process
// own: on one host its number is in use or not. A container that is started
// again has its predecessor's host name and number.
func cause(identity, own string) string {
	host, pid, ok := splitIdentity(identity)
	ownHost, ownPID, known := splitIdentity(own)
	switch {
	case !ok || !known || host != ownHost || ownPID != os.Getpid():
		return causeLease
	case identity == own: // it went on without the units
		return causeThere
	case pid == ownPID:
		return causeEnded
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return causeEnded
	}
	defer func() { _ = p.Release() }()
	err = p.Signal(syscall.Signal(0))
	if err == nil || os.IsPermission(err) || errors.Is(err, errors.ErrUnsupported) { // Windows: it was found, that is all
		return causeThere
	}
	return causeEnded
}

// splitIdentity takes HOST:PID:NONCE apart; a host may have colons.
func splitIdentity(identity string) (host string, pid int, ok bool) {
	parts := strings.Split(identity, ":")
	if len(parts) < 3 {
		return "", 0, false
	}
	pid, err := strconv.Atoi(parts[len(parts)-2])
	return strings.Join(parts[:len(parts)-2], ":"), pid, err == nil && pid > 0
}
