//go:build !unix

package app

// fileLimit is how many files this process may open: there is no such limit.
func fileLimit() int { return 0 }
