package redistest

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

//go:embed shim/noted.c
var notedSource []byte

// StartWatched is Start for a server whose power may fail: what it makes the
// disk keep is noted, for LosePower.
func StartWatched(t testing.TB, settings ...string) *Server {
	t.Helper()
	return StartOnDisk(t, 0, settings...)
}

// StartOnDisk is StartWatched on a disk that takes longer for each fsync, by
// slower, as one does that others keep busy.
func StartOnDisk(t testing.TB, slower time.Duration, settings ...string) *Server {
	t.Helper()
	s := newServer(t, settings)
	require.NoError(t, s.watch())
	s.env = append(s.env, fmt.Sprint("SLOW=", slower.Milliseconds()))
	return mustStart(t, s)
}

// watch puts the shim before the server's C library, from its next start on.
func (s *Server) watch() error {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		return errors.New("a C compiler, cc, is needed to simulate a power failure: apt-get install gcc")
	}
	if err := os.WriteFile(s.file("noted.c"), notedSource, 0o600); err != nil {
		return fmt.Errorf("watch what is on the disk: %w", err)
	}
	build := exec.Command(compiler, "-shared", "-fPIC", "-O1", "-o", s.file("noted.so"), s.file("noted.c"), "-ldl")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the shim: %w: %s", err, out)
	}
	s.env = append(s.env, "LD_PRELOAD="+s.file("noted.so"), "NOTED="+s.file("noted"))
	return nil
}

// LosePower ends a server of StartWatched as a host that loses its power does:
// of the file it appends to, only what the disk had is left. Restart starts it
// on that. lost is how many bytes are gone.
//
// It is the worst that may happen: an operating system also writes back by
// itself, at times. Where the file was rewritten, the base and the list of the
// files are left whole, since the server does not use them before the disk has
// them.
func (s *Server) LosePower() (lost int64) {
	s.t.Helper()
	s.Kill()
	kept, err := s.onDisk()
	require.NoError(s.t, err)
	files, err := filepath.Glob(filepath.Join(s.dir, "appendonlydir", "*.incr.aof"))
	require.NoError(s.t, err)
	require.NotEmpty(s.t, files, "the server appends to no file")
	var notes strings.Builder // from here on all that is left is on the disk
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(s.t, err)
		inode := info.Sys().(*syscall.Stat_t).Ino
		size := min(kept[inode], info.Size()) // when it is loaded, a torn end is cut off
		require.NoError(s.t, os.Truncate(file, size))
		lost += info.Size() - size
		fmt.Fprintln(&notes, inode, size)
	}
	require.NoError(s.t, os.WriteFile(s.file("noted"), []byte(notes.String()), 0o600))
	return lost
}

// onDisk is how much of each file the disk has, by inode.
func (s *Server) onDisk() (map[uint64]int64, error) {
	if len(s.env) == 0 {
		return nil, errors.New("lose power: the server was not started with StartWatched")
	}
	notes, err := os.ReadFile(s.file("noted"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("lose power: %w", err)
	}
	kept := map[uint64]int64{}
	for line := range strings.Lines(string(notes)) {
		var inode uint64
		var size int64
		if _, err := fmt.Sscan(line, &inode, &size); err != nil {
			return nil, fmt.Errorf("lose power: note %q: %w", line, err)
		}
		kept[inode] = max(kept[inode], size)
	}
	return kept, nil
}
