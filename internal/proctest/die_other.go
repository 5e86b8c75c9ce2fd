//go:build !linux

package proctest

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
