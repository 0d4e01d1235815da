//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package embedded

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock locks a file for this process and the children that inherit it, and reports
// whether it was free. The lock ends with the last of these processes.
func lock(f *os.File) (free bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, syscall.EWOULDBLOCK), errors.Is(err, syscall.EINTR):
		return false, nil
	}
	return false, fmt.Errorf("lock %s: %w", f.Name(), err)
}

// noFollow makes an open fail if the name is a link.
const noFollow = syscall.O_NOFOLLOW

// ours reports whether a file belongs to the user of this process.
func ours(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
