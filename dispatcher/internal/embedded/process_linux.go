package embedded

import "syscall"

// processAttributes give the server a group of its own, so that Ctrl-C in a
// terminal reaches only us and it ends last, and have it end when we are killed:
// by SIGTERM, on which it writes what it holds.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
