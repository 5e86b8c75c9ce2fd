//go:build !linux

package conformance

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
