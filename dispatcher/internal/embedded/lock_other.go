//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package embedded

import (
	"errors"
	"os"
	"syscall"
)

// lock is not supported, because this system can't lock a file for a process and its
// children.
func lock(*os.File) (free bool, err error) {
	return false, errors.New("the embedded Redis is not supported on this system: set REDIS_URL")
}

func processAttributes() *syscall.SysProcAttr { return nil }

// noFollow and ours have no effect here.
const noFollow = 0

func ours(os.FileInfo) bool { return true }
