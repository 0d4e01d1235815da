package embedded

import "syscall"

// processAttributes puts the server into its own process group, so Ctrl-C in a terminal
// reaches only us and the server ends last. When we are killed the server gets SIGTERM
// and writes its data.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
