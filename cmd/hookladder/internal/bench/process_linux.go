package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes give a child a group of its own, so that Ctrl-C in a terminal
// reaches only us and it ends after we asked it to, and have it end when we are
// killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// cpuOf is what a process has used so far, in microseconds; 0 means this one.
func cpuOf(pid int) (micros float64, known bool) {
	// The kernel has a clock of each process' CPU time, to the nanosecond, whose
	// number is made like this; what /proc tells has a grain of 10 ms.
	clock := int32(^pid)<<3 | 2
	if pid == 0 {
		clock = unix.CLOCK_PROCESS_CPUTIME_ID
	}
	var at unix.Timespec
	if err := unix.ClockGettime(clock, &at); err != nil {
		return 0, false
	}
	return float64(at.Nano()) / 1000, true
}

// peakOf is the most memory that a process ever had, in bytes.
func peakOf(pid int) (bytes float64, known bool) { return statusOf(pid, "VmHWM:") }

// statusOf reads a size from a process' status.
func statusOf(pid int, name string) (size float64, known bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if !ok {
			continue
		}
		kib, err := strconv.ParseFloat(string(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB"))), 64)
		return kib * 1024, err == nil
	}
	return 0, false
}

// inMemory reports whether a folder is not on a disk.
func inMemory(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && (fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC)
}

// cpuModel is what the machine calls its processor; empty where it doesn't.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(bytes.TrimSpace(name)) == "model name" {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}
