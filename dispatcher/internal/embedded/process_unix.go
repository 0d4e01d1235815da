//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package embedded

import "syscall"

// processAttributes puts the server into its own process group, so Ctrl-C in a terminal
// reaches only us and the server ends last. When we are killed the server continues, and
// the next start ends it.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
