//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package embedded

import "syscall"

// processAttributes give the server a group of its own, so that Ctrl-C in a
// terminal reaches only us and it ends last. When we are killed it goes on, and
// the next start ends it.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
