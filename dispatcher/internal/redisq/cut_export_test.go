package redisq

// DigestsSHA is the script that schedule calls before it writes anything, in
// the form with the tests' clock.
var DigestsSHA = newScripts(true).read.Digests.SHA()

// SHAs are the names of the queue's scripts by their SHA, in the form with the
// tests' clock.
func SHAs() map[string]string {
	names := map[string]string{}
	all := newScripts(true)
	for _, sc := range all.all() {
		names[sc.SHA()] = sc.Name
	}
	return names
}
