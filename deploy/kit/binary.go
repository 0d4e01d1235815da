//go:build unix

package kit

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// Revision is what a binary of Binary tells as its commit, as builds without git
// do.
const Revision = "0123456789abcdef"

// Binary is the path of the real program, built with the race detector. All test
// packages share one build: it is kept in the folder for temporary files, and
// go build leaves it alone as long as the sources are the same.
var Binary = sync.OnceValues(func() (string, error) { return hookladder("-race") })

// FastBinary is the same without the race detector, for benchmarks.
var FastBinary = sync.OnceValues(func() (string, error) { return hookladder() })

func hookladder(flags ...string) (path string, err error) {
	return Build("./cmd/hookladder", append(flags, "-ldflags", "-X main.builtFrom="+Revision)...)
}

// Build builds a program of this module, and answers its path. It is kept for
// other processes that want the same.
func Build(program string, flags ...string) (path string, err error) {
	module, err := moduleDir()
	if err != nil {
		return "", err
	}
	// A folder for each user, copy of the module, program and set of flags.
	key := sha256.Sum256(fmt.Append(nil, module, program, flags))
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("hookladder-kit-%d-%x", os.Getuid(), key[:6]))
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, 0o700)); err != nil { // fails in a folder of somebody else
		return "", fmt.Errorf("build %s: %w", program, err)
	}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return "", fmt.Errorf("build %s: %w", program, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("build %s: wait for another build: %w", program, err)
	}
	path = filepath.Join(dir, filepath.Base(program))
	args := append([]string{"build", "-buildvcs=false", "-o", path}, flags...)
	cmd := exec.Command("go", append(args, program)...)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", program, err, out)
	}
	return path, nil
}

// moduleDir is the folder of go.mod above the one we are in.
func moduleDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", errors.New("find the module: no go.mod above the working folder")
		}
		dir = above
	}
}
