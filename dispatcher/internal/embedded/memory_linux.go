package embedded

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memory is the most that the server may keep: half of what this process may
// use, or of the machine's. The rest is for us, and for the copy while the file
// is rewritten. Without a limit the kernel would kill one of both where now
// publishing is refused.
func memory() int64 { return limit("/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup") / 2 }

// limit is the least that any of them sets; 0: none tells.
func limit(machine, own, top string) int64 {
	limit := machineMemory(machine)
	for _, file := range limitFiles(own, top) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // another kind of control group, or none
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && n > 0 && (limit == 0 || n < limit) {
			limit = n
		}
	}
	return limit
}

// machineMemory reads how much the machine has; 0: it does not tell.
func machineMemory(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

// limitFiles are where the limits of this process may stand: those of its
// control group and all above it, in both versions of control groups.
func limitFiles(own, top string) []string {
	files := []string{filepath.Join(top, "memory.max"), filepath.Join(top, "memory", "memory.limit_in_bytes")}
	text, err := os.ReadFile(own)
	if err != nil {
		return files
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for group := parts[2]; len(group) > 1; group = filepath.Dir(group) {
			if parts[0] == "0" {
				files = append(files, filepath.Join(top, group, "memory.max"))
			} else if parts[1] == "memory" {
				files = append(files, filepath.Join(top, "memory", group, "memory.limit_in_bytes"))
			}
		}
	}
	return files
}
