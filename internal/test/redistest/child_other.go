//go:build !linux

package redistest

import (
	"os/exec"
	"syscall"
)

func childAttr() *syscall.SysProcAttr { return nil }

func startOnThread(cmd *exec.Cmd) error { return cmd.Start() }
