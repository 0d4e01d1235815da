//go:build !linux

package kit

import "syscall"

// childAttributes are the usual ones here: children end only when this process
// ends in order, and run as this process does.
func childAttributes(Command) *syscall.SysProcAttr { return nil }

// CPU is known on Linux only. Elsewhere a dispatcher's own metrics tell it.
func CPU(int) (micros float64, known bool) { return 0, false }

// PeakMemory is known on Linux only.
func PeakMemory(int) (bytes float64, known bool) { return 0, false }

// Memory is known on Linux only.
func Memory(int) (bytes float64, known bool) { return 0, false }

// InMemory is known on Linux only.
func InMemory(string) bool { return false }
