package redistest

import (
	"context"
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

	"github.com/hookladder/hookladder/deploy/kit"
)

//go:embed shim/noted.c
var notedSource []byte

// StartWatched is Start for a server that may lose its power. A shim notes each fsync
// of the server, for LosePower.
func StartWatched(t testing.TB, settings ...string) *Server {
	t.Helper()
	return StartOnDisk(t, 0, settings...)
}

// StartOnDisk is StartWatched on a slow disk. Each fsync takes longer by slower, as
// if other processes kept the disk busy.
func StartOnDisk(t testing.TB, slower time.Duration, settings ...string) *Server {
	t.Helper()
	Long(t)
	dir := t.TempDir()
	shim, err := buildShim(t.Context(), dir)
	require.NoError(t, err)
	return mustStart(t, kit.RedisOptions{Dir: dir, Settings: settings, Env: []string{
		"LD_PRELOAD=" + shim, "NOTED=" + filepath.Join(dir, notes), fmt.Sprint("SLOW=", slower.Milliseconds()),
	}})
}

// notes is the file to which the shim writes.
const notes = "noted"

// buildShim builds the shim, a library that is loaded before the server's C library.
func buildShim(ctx context.Context, dir string) (path string, err error) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		return "", errors.New("a C compiler, cc, is needed to simulate a power failure: apt-get install gcc")
	}
	source, path := filepath.Join(dir, "noted.c"), filepath.Join(dir, "noted.so")
	if err := os.WriteFile(source, notedSource, 0o600); err != nil {
		return "", fmt.Errorf("build the shim: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, kit.Patience)
	defer cancel()
	if out, err := exec.CommandContext(ctx, compiler, "-shared", "-fPIC", "-O1", "-o", path, source, "-ldl").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the shim: %w: %s", err, out)
	}
	return path, nil
}

// LosePower ends a server of StartWatched as if its host lost its power. Of the
// append-only file only the part that the disk has remains. Restart uses that part.
// It returns the number of bytes that are lost.
//
// This is the worst case, because an operating system also writes back by itself at
// times. If the file was rewritten, the base file and the list of files remain whole.
// The server does not use them until the disk has them.
func (s *Server) LosePower() (lost int64) {
	s.t.Helper()
	s.Kill()
	kept, err := s.onDisk()
	require.NoError(s.t, err)
	files, err := filepath.Glob(filepath.Join(s.Dir, "appendonlydir", "*.incr.aof"))
	require.NoError(s.t, err)
	require.NotEmpty(s.t, files, "the server appends to no file")
	var text strings.Builder // the disk has every byte from here on
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(s.t, err)
		inode := info.Sys().(*syscall.Stat_t).Ino
		size := min(kept[inode], info.Size()) // Run removes an incomplete change at the end
		require.NoError(s.t, os.Truncate(file, size))
		lost += info.Size() - size
		fmt.Fprintln(&text, inode, size)
	}
	require.NoError(s.t, os.WriteFile(filepath.Join(s.Dir, notes), []byte(text.String()), 0o600))
	return lost
}

// onDisk returns how much of each file is on the disk, by inode.
func (s *Server) onDisk() (map[uint64]int64, error) {
	if len(s.Env) == 0 {
		return nil, errors.New("lose power: the server was not started with StartWatched")
	}
	noted, err := os.ReadFile(filepath.Join(s.Dir, notes))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("lose power: %w", err)
	}
	kept := map[uint64]int64{}
	for line := range strings.Lines(string(noted)) {
		var inode uint64
		var size int64
		if _, err := fmt.Sscan(line, &inode, &size); err != nil {
			return nil, fmt.Errorf("lose power: note %q: %w", line, err)
		}
		kept[inode] = max(kept[inode], size)
	}
	return kept, nil
}
