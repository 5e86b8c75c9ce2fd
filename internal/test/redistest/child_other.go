//go:build !linux

package redistest

import (
	"os/exec"
	"syscall"
)

func childAttr() *syscall.SysProcAttr { return nil }

func startLocked(cmd *exec.Cmd) error { return cmd.Start() }
