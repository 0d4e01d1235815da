package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hookladder/hookladder/deploy/kit"
)

// mount makes a folder a disk of its own, in memory. That needs rights that root lacks
// in some containers, and others lack everywhere.
func mount(dir string, size int64) error {
	return exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", size), "hookladder", dir).Run()
}

func unmount(dir string) error { return exec.Command("umount", dir).Run() }

// smallFile is how large files may become on a full disk that is not mounted: as large
// as a segment of the log, which is always written whole.
const smallFile = "1048576"

// limitFiles sets the size up to which the server's processes may write files. Beyond
// it PostgreSQL behaves as on a full disk. As the server's own user this needs no right.
func (s *Server) limitFiles(size string) error {
	for _, pid := range s.pids() {
		p, err := kit.Start(kit.Command{
			Name: "prlimit", Path: "/usr/bin/prlimit", UID: s.as.uid, GID: s.as.gid, Dir: s.dir,
			Args: []string{"--pid", pid, "--fsize=" + size + ":"},
		})
		if err != nil {
			return err
		}
		if p.ExitCode() != 0 && exists(pid) {
			return p.Death()
		}
	}
	return nil
}

// pids are the server's process and its children.
func (s *Server) pids() []string {
	own := fmt.Sprint(s.process.Pid())
	found := []string{own}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // no bad pattern
	for _, file := range stats {
		text, _ := os.ReadFile(file) // it may have ended
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == own {
			found = append(found, filepath.Base(filepath.Dir(file)))
		}
	}
	return found
}

func exists(pid string) bool {
	_, err := os.Stat("/proc/" + pid)
	return err == nil
}
