//go:build !unix

package app

// fileLimit returns the limit of open files of this process. Here there is no such limit.
func fileLimit() int { return 0 }
