//go:build unix

package app

import (
	"math"

	"golang.org/x/sys/unix"
)

// fileLimit returns the limit of open files of this process. Go raises the soft limit to the
// hard one before main begins.
func fileLimit() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil || uint64(l.Cur) > math.MaxInt32 { //nolint:unconvert // signed on FreeBSD
		return 0
	}
	return int(l.Cur)
}
