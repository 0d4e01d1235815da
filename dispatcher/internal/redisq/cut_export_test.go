package redisq

// DigestsSHA is the script that schedule asks before it writes anything, as the
// tests' clock makes it.
var DigestsSHA = newScripts(true).digests.sha
