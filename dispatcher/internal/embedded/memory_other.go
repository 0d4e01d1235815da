//go:build !linux

package embedded

// memory is the most that the server may keep; 0: as much as there is.
func memory() int64 { return 0 }
