package redisq

import "github.com/hookladder/hookladder/dispatcher/internal/redisq/read"

// DigestsSHA is the script that schedule calls before it writes anything, in
// the form with the tests' clock.
var DigestsSHA = read.DigestsScript.OfTest().SHA()

// SHAs are the names of the queue's scripts by their SHA, in the form with the
// tests' clock.
func SHAs() map[string]string {
	names := map[string]string{}
	for _, sc := range loaded() {
		names[sc.OfTest().SHA()] = sc.Name
	}
	return names
}
