//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package embedded

import (
	"errors"
	"os"
	"syscall"
)

// lock can't be done here: a file is not locked for a process and its children.
func lock(*os.File) (free bool, err error) {
	return false, errors.New("a Redis of its own is not run on this system: name one with REDIS_URL")
}

func processAttributes() *syscall.SysProcAttr { return nil }

// noFollow and ours say nothing here.
const noFollow = 0

func ours(os.FileInfo) bool { return true }
