//go:build !linux

package embedded

// memory returns the server's maxmemory; 0: no limit.
func memory() int64 { return 0 }
