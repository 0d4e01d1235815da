//go:build !linux

package bench

import "syscall"

// childAttributes are nothing special here: children end when we do in order.
func childAttributes() *syscall.SysProcAttr { return nil }

// cpuOf is known on Linux only; elsewhere a dispatcher's own metrics tell it.
func cpuOf(int) (micros float64, known bool) { return 0, false }

// peakOf is known on Linux only.
func peakOf(int) (bytes float64, known bool) { return 0, false }

// inMemory is known on Linux only.
func inMemory(string) bool { return false }

// cpuModel is known on Linux only.
func cpuModel() string { return "" }
