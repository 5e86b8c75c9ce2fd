package chaos

import "syscall"

// dieWithParent makes a child end with the test binary.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
