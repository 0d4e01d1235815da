package start

// What the tests of this package look at from inside.
var (
	Judge      = judge
	Warnings   = warnings
	Unverified = unverified
)
