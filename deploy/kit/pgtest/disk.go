package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hookladder/hookladder/deploy/kit"
)

// mount mounts a disk in memory on a folder. In some containers root has no right to
// mount, and other users never have it.
func mount(dir string, size int64) error {
	return exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", size), "hookladder", dir).Run()
}

func unmount(dir string) error { return exec.Command("umount", dir).Run() }

// smallFile is the size limit for files on a full disk that is not mounted. It is the
// size of a segment of the log, because a segment is always written whole.
const smallFile = "1048576"

// limitFiles sets the size limit for files that the server's processes write. Beyond
// the limit PostgreSQL fails as on a full disk. The server's own user needs no right
// for this.
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

// pids returns the process ids of the server and its children.
func (s *Server) pids() []string {
	own := fmt.Sprint(s.process.Pid())
	found := []string{own}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // no bad pattern
	for _, file := range stats {
		text, _ := os.ReadFile(file) // the process may have exited
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
