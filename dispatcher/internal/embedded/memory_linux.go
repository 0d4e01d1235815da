package embedded

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memory returns the server's maxmemory: half of the memory that this process may use, or
// of the machine's. The rest is for this process, and for the copy while the file is
// rewritten. Without a limit the kernel would kill one of both, but with it Redis refuses
// to publish.
func memory() int64 { return limit("/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup") / 2 }

// limit returns the lowest limit that is set; 0: no limit is known.
func limit(machine, own, top string) int64 {
	limit := machineMemory(machine)
	for _, file := range limitFiles(own, top) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // another version of control groups, or none
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && n > 0 && (limit == 0 || n < limit) {
			limit = n
		}
	}
	return limit
}

// machineMemory returns the memory of the machine; 0: unknown.
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

// limitFiles returns the files that may contain the limits of this process: its control
// group and all groups above it, in both versions of control groups.
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
