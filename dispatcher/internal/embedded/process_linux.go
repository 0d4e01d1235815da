package embedded

import "syscall"

// processAttributes give the server a group of its own: Ctrl-C in a terminal
// reaches only us, and the server ends last. When we are killed it gets SIGTERM,
// and writes its data.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
