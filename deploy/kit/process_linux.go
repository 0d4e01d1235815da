package kit

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes returns attributes that put a child into a process group of its
// own. Ctrl-C in a terminal reaches only this process, which then ends the child in
// order. The kernel kills the child if this process is killed.
func childAttributes(c Command) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: cmp.Or(c.Orphan, syscall.SIGKILL)}
	if c.UID != 0 {
		a.Credential = &syscall.Credential{Uid: c.UID, Gid: c.GID}
	}
	return a
}

// CPU returns the CPU time that a process has used, in microseconds. Pid 0 means this
// process.
func CPU(pid int) (micros float64, known bool) {
	// The kernel has a clock with this number for the CPU time of each process,
	// exact to the nanosecond. The times in /proc are exact to 10 ms only.
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

// Used returns the CPU time that a process and its exited children have used, in
// microseconds. It is exact to 10 ms. Pid 0 means this process.
func Used(pid int) (micros float64, known bool) {
	name := "self"
	if pid != 0 {
		name = strconv.Itoa(pid)
	}
	text, err := os.ReadFile("/proc/" + name + "/stat")
	if err != nil {
		return 0, false
	}
	_, rest, _ := bytes.Cut(text, []byte(") ")) // behind the name, which may have spaces
	fields := bytes.Fields(rest)
	if len(fields) < 15 {
		return 0, false
	}
	return ticks(fields[11:15]), true // user and system time, and both of the children
}

// Machine returns the CPU time of all cores since the machine started, in microseconds:
// all of it, and the used part. A hypervisor's use for other machines counts as used.
func Machine() (all, used float64, known bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, false
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0, 0, false
	}
	all = ticks(fields[1:9]) // user, nice, system, idle, iowait, irq, softirq, steal
	return all, all - ticks(fields[4:6]), true
}

// ticks adds up times in the kernel's unit, which is always 10 ms for programs.
func ticks(fields [][]byte) (micros float64) {
	for _, f := range fields {
		n, _ := strconv.ParseFloat(string(f), 64)
		micros += n * 10_000
	}
	return micros
}

// PeakMemory returns the highest memory use of a process, in bytes.
func PeakMemory(pid int) (bytes float64, known bool) { return statusOf(pid, "VmHWM:") }

// Memory returns the memory use of a process now, in bytes.
func Memory(pid int) (bytes float64, known bool) { return statusOf(pid, "VmRSS:") }

// statusOf reads a size from the status file of a process.
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

// InMemory reports whether a folder is in memory and not on a disk.
func InMemory(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && (fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC)
}
