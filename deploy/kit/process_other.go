//go:build !linux

package kit

import "syscall"

// childAttributes returns the defaults here. Children end only if this process ends
// in order, and they run as its user.
func childAttributes(Command) *syscall.SysProcAttr { return nil }

// CPU is known on Linux only. On other systems the bench reads the metrics of the
// dispatcher.
func CPU(int) (micros float64, known bool) { return 0, false }

// Used is known on Linux only.
func Used(int) (micros float64, known bool) { return 0, false }

// Machine is known on Linux only.
func Machine() (all, used float64, known bool) { return 0, 0, false }

// PeakMemory is known on Linux only.
func PeakMemory(int) (bytes float64, known bool) { return 0, false }

// Memory is known on Linux only.
func Memory(int) (bytes float64, known bool) { return 0, false }

// InMemory is known on Linux only.
func InMemory(string) bool { return false }
